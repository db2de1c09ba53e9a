"""The digital-assistant world: personas, their apps, their needs and what they ask for."""
