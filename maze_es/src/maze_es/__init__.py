"""Evolution strategies: perturb the weights, play, follow the ranks of the returns."""
