"""The console view of a running training."""
