"""Run directories, seeding, provenance and the fan-out of statistics to loggers."""
