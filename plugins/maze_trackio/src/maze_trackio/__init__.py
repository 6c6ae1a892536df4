"""Statistics of a run in the local database of trackio."""
