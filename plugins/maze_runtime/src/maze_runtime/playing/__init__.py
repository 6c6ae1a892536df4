"""Playing episodes: of an experiment, of a trained run, one decision at a time."""
