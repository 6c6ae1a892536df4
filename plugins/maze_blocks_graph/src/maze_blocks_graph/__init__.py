"""Graph blocks."""
