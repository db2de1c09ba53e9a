"""What makes the notebooks a workbook: parameters, profiles, artifacts, figures and tables."""
