"""Wrappers for Maze: transforms of observations and rewards, and wrappers around single environments."""
