"""Twin delayed deep deterministic policy gradients."""
