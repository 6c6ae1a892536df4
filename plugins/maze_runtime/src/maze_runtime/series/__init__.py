"""Several runs at a time on a worker pool: seeds of one experiment, trials of a sweep."""
