"""What makes the notebooks a workbook: profiles, artifacts, figures and tables, the report."""
