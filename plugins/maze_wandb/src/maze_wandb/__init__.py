"""Statistics of a run on Weights & Biases."""
