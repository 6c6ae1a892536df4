"""Options of the `mlflow` logger."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above


@attrs.frozen(kw_only=True)
class MlflowOptions:
    """The `[[loggers]] use = "mlflow"` table."""

    tracking_uri: str = ""
    """Address of the server, such as "http://127.0.0.1:5000"; empty: the environment variable MLFLOW_TRACKING_URI."""
    experiment: str = ""
    """MLflow's experiment, which is made if there is none; empty: the name of the experiment."""
    name: str = ""
    """Name of the run; empty: that of its folder."""
    tags: tuple[str, ...] = ()
    """Each becomes a tag of the run, "key=value" or a key alone."""
    upload_model: bool = True
    """Whether the best model becomes an artifact at the end."""
    timeout_seconds: float = attrs.field(default=60.0, validator=above(0))
    """Longest time for one call; then the logger is left out of the run."""
