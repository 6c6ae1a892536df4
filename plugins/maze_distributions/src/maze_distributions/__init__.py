"""Probability distributions over one action head, as pure functions of logits."""
