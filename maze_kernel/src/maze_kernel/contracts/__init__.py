"""Protocols and records: what environments, models, trainers, pools, loggers and datasets are to each other."""
