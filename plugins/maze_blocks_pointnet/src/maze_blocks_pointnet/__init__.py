"""Point-net blocks."""
