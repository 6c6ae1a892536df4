"""What makes an experiment run: environments, events, models, rollouts, runs, training, and the inline pool."""
