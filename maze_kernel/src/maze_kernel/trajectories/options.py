"""Options that name recorded episodes: of the policy component "replay", and of trainers that learn from them."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """What is replayed."""

    path: str
    """A recording, a run directory with recordings, or the file of one episode."""


@attrs.frozen(kw_only=True)
class TrajectoryData:
    """Episodes recorded with `maze rollout --record`."""

    use: Literal["trajectories"] = "trajectories"
    """The kind of data: "trajectories" or "minari"."""
    path: str
    """A recording, a run directory (all its recordings), a folder of recordings, or the file of one episode; from the working directory."""  # noqa: E501


@attrs.frozen(kw_only=True)
class MinariData:
    """A Minari dataset; needs `pip install 'maze-kernel[minari]'`."""

    use: Literal["minari"]
    """The kind of data: "minari" or "trajectories"."""
    id: str
    """Name of a dataset in the local Minari folder, such as "D4RL/door/human-v2", or the folder of one. Nothing is downloaded."""  # noqa: E501
