"""Sweeps: many runs of one experiment with different settings, chosen by a searcher."""
