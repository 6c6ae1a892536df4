"""The training loop that every algorithm shares, and what it asks of a trainer."""
