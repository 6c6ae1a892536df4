"""Worker processes: the pool and the vector mode "subprocess", and workers that collect rollouts by themselves."""
