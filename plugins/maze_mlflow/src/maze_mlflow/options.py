"""Options of the `mlflow` logger."""

from __future__ import annotations

import os

import attrs

from maze_kernel.errors import RequestError
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

    @property
    def server(self) -> str:
        """Address of the server; empty where there is none."""
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI", "")

    def check_ready(self) -> None:
        """Refuse to be used without MLflow or its server's address.

        Raises:
            RequestError: names what is missing.
        """
        from maze_runtime.run.tracking import require_package

        require_package("mlflow", "mlflow", "mlflow-skinny")
        if not self.server:
            raise RequestError(
                "the logger 'mlflow' has no server",
                expected="an address as tracking_uri, or in MLFLOW_TRACKING_URI",
                option="tracking_uri",
                help="start one with: mlflow server",
            )
