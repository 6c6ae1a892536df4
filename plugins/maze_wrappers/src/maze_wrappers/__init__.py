"""Wrappers for Maze: transforms of observations and rewards, and wrappers around single environments."""

__tracebackhide__ = True
"""Frames of this package say nothing about an error of the environment inside; see `maze_runtime.env.tracebacks`."""
