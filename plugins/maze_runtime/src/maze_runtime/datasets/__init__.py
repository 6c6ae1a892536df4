"""Recorded episodes as trainers read them, wherever they come from: opened, on the worker pool, as transitions."""
