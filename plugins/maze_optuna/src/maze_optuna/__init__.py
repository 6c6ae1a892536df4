"""Optuna's samplers and pruners for sweeps: the searcher "optuna"."""
