"""Worker processes: the pool and the vector mode "subprocess", and workers that collect rollouts by themselves."""

__tracebackhide__ = True
"""Frames of this package say nothing about an error of the environment inside; see `maze_runtime.env.tracebacks`."""
