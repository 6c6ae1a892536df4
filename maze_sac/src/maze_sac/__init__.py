"""Soft actor-critic: off-policy training with entropy bonus and experience replay."""
