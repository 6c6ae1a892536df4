"""Statistics of a run as CSV files."""
