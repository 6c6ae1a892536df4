"""Recorded episodes: how they are written while an environment is played, stored, read, transformed and replayed."""

__tracebackhide__ = True
"""Frames of this package say nothing about an error of the environment inside; see `maze_runtime.env.tracebacks`."""
