"""Writes TensorBoard event files: scalars, histograms, texts and figures, and what the run was started with.

Resuming rewrites the kept part of the history into one file, so that no point appears twice, whatever the
horizontal axis is and wherever the run was killed.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome
from maze_kernel.contracts.networks import NetworkGraph
from maze_tensorboard.beginning import Beginning
from maze_tensorboard.history import keep_until
from maze_tensorboard.options import TensorBoardOptions

EPOCH_TAG = "run/epoch"
"""Written with every epoch; a resume finds by it what belongs to which epoch."""


class TensorBoardLogger:
    """One event file a process."""

    def __init__(self, context: LoggerContext, options: TensorBoardOptions) -> None:
        folder = Path(context.run_dir) / options.folder
        self._by_epoch = options.x_axis == "epoch"
        if folder.is_dir():
            kept = keep_until(folder, context.resumed_epoch, EPOCH_TAG)
            # Half a curve over epochs and half over steps would be none
            self._by_epoch = self._by_epoch if kept is None else kept == context.resumed_epoch
        self._writer = SummaryWriter(str(folder), flush_secs=options.flush_seconds)
        self._beginning = Beginning.of(Path(context.run_dir), context.metric)
        if not context.resumed_epoch:
            self._beginning.write(self._writer)

    def write(self, record: EpochRecord) -> None:
        """One epoch; its number is written last, so an epoch without it is one that was cut off."""
        # Trainers that take no environment steps have epochs alone
        step = record.epoch if self._by_epoch or not record.env_steps else record.env_steps
        for prefix, statistics in (("train", record.train), ("eval", record.evaluation)):
            for tag, value in statistics.items():
                self._add(f"{prefix}_{tag}", value, step)
        self._add(EPOCH_TAG, record.epoch, step)

    def networks(self, graphs: Mapping[str, NetworkGraph]) -> None:
        """A picture of each, under the tab of images; drawn once, at step 0."""
        from maze_drawing.network_drawing import draw
        from maze_tensorboard.bitmap import pixels

        writer: Any = self._writer
        for name, graph in graphs.items():
            writer.add_image(f"networks/{name}", pixels(draw(graph, name)), 0, dataformats="HWC")

    def message(self, text: str) -> None:
        """Messages stay out of TensorBoard."""

    def close(self, outcome: Outcome) -> None:
        """Write how the run ended, the value of its best epoch, and what is left."""
        self._writer.add_text("run/outcome", f"{outcome.status}: {outcome.reason}")
        self._beginning.write_end(self._writer, outcome)
        self._writer.close()

    def _add(self, tag: str, value: Any, step: int) -> None:
        writer: Any = self._writer
        if isinstance(value, str):
            writer.add_text(tag, value, step)
        elif isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
            writer.add_scalar(tag, float(value), step)
        elif isinstance(value, np.ndarray):
            if value.size:
                writer.add_histogram(tag, value.reshape(-1), step)
        else:
            writer.add_figure(tag, value, step)
