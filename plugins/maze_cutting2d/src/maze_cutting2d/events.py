"""What the simulation reports, and how it is counted."""

from __future__ import annotations

import numpy as np

from maze_cutting2d.options import Size
from maze_runtime.events.declaration import define_episode_stats, define_epoch_stats, define_step_stats


class CuttingEvents:
    """What became of the cuts."""

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def valid_cut(self, current_demand: Size, piece_to_cut: Size, raw_piece_size: Size) -> None:
        """An order was cut."""

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def invalid_cut(self, current_demand: Size, piece_to_cut: Size, raw_piece_size: Size) -> None:
        """The order does not fit into the piece that was chosen for it."""

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def invalid_piece_selected(self) -> None:
        """An empty slot of the inventory was chosen."""


class InventoryEvents:
    """What happens to the inventory."""

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def piece_discarded(self, piece: Size) -> None:
        """The inventory was full, and an old piece was thrown away."""

    @define_epoch_stats(np.mean, input_name="step_mean", output_name="step_mean")
    @define_epoch_stats(max, input_name="step_max", output_name="step_max")
    @define_episode_stats(np.mean, output_name="step_mean")
    @define_episode_stats(max, output_name="step_max")
    @define_step_stats(None)
    def pieces_in_inventory(self, value: int) -> None:
        """How many pieces there are at the end of a step."""

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def piece_replenished(self) -> None:
        """A fresh raw piece came in; the first one at the start of the episode."""
