"""Neural building blocks, inference graphs and model templates."""
