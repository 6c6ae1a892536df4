"""What runs came to: lists of runs, comparisons with honest statistics, reports as one page, and series as arrays."""
