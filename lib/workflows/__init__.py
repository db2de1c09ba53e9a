"""The workflow-automation world: APIs, the language that calls them, and how a generated flow is scored."""
