"""What a third party may add to Maze, through its hooks alone."""
