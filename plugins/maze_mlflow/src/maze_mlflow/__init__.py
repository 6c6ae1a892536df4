"""Statistics of a run on an MLflow server."""
