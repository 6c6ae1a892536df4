"""Replay: rings of transitions, and the account of every actor that turns decisions into transitions."""
