"""Trained policies in use: agents that other programs ask for actions, and files that need no Maze to act."""
