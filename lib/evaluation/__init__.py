"""Outputs in, numbers out: ranking metrics and statistical inference."""
