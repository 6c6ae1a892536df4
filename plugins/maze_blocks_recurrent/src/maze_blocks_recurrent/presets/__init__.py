"""Networks with a memory, as presets."""
