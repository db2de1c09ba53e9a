"""Shared code of the workbook's notebooks."""
