"""The blocks, by family."""
