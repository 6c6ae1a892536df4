"""Worker pools: stateful actors in this process, in others, or (by plugin) on other machines."""
