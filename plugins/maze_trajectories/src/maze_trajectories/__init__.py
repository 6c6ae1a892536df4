"""Recorded episodes: how they are written while an environment is played, stored, read, transformed and replayed."""
