"""Batches of environments, and the collectors that step them."""
