"""`maze to-minari` and `maze from-minari`: recordings and the datasets of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def to_minari(
    source: Annotated[Path, typer.Argument(metavar="RECORDING", help="A recording or a run directory.")],
    dataset_id: Annotated[str, typer.Argument(metavar="ID", help="Name of the new dataset, e.g. maze/pole-v0.")],
) -> None:
    """Export recorded episodes of a flat environment to a Minari dataset on this machine."""
    from maze_trajectories.dataset import TrajectoryDataset
    from maze_trajectories.minari_datasets import export_to_minari

    dataset = TrajectoryDataset.open(source)
    n_steps = export_to_minari(dataset, dataset_id, policy=dataset.infos()[0].policy)
    print(f"exported {len(dataset)} episodes, {n_steps} steps, to the Minari dataset {dataset_id}")


def from_minari(
    dataset_id: Annotated[str, typer.Argument(metavar="ID", help="Name of a dataset on this machine.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="A new folder for the recording.")],
) -> None:
    """Import a Minari dataset of this machine as a recording."""
    from maze_trajectories.minari_datasets import import_from_minari

    n_episodes = import_from_minari(dataset_id, out)
    print(f"imported {n_episodes} episodes into {out}")
