"""Text in, ranked documents out."""
