"""PettingZoo games as structured environments."""
