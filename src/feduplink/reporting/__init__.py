"""What a run leaves in its directory: plots, tables, files; and finished runs as one page."""
