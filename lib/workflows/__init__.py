"""The workflow-automation world: API catalogue, DSL and flows."""
