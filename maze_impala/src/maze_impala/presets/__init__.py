"""Tuned settings as presets: the tables of the examples but for name, seed and environment."""
