"""What runs the notebooks and renders their report; nothing below imports it."""
