"""A Maze plugin to start from: a wrapper, a block and a trainer."""
