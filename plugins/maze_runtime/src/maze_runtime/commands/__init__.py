"""The commands `maze train`, `maze rollout` and `maze show`."""
