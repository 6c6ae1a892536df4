"""Gymnasium environments for Maze: single, batched, masked."""

__tracebackhide__ = True
"""Frames of this package say nothing about an error of the environment inside; see `maze_runtime.env.tracebacks`."""
