"""Experiment files: TOML text to one frozen, checked `Experiment`."""
