"""Models and what they are asked: prompts in, text out."""
