"""Gymnasium environments for Maze: single, batched, masked."""
