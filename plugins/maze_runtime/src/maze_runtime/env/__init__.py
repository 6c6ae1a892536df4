"""Environment contracts: what an environment, a wrapper and a batch of environments look like to the rest of Maze."""
