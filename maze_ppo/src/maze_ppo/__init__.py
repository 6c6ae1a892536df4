"""PPO and A2C: on-policy actor-critic training."""
