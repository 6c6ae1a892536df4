"""The KPI of the problem: raw pieces used a step."""

from __future__ import annotations

from typing import Any

from maze_cutting2d.events import InventoryEvents
from maze_runtime.events.kpi import KpiCalculator
from maze_runtime.events.logs import EpisodeEventLog


class CuttingKpiCalculator(KpiCalculator):
    """`raw_piece_usage_per_step`: fresh raw pieces, the first one included, over steps."""

    def calculate_kpis(self, episode_event_log: EpisodeEventLog, last_maze_state: Any) -> dict[str, float]:
        """Counts the pieces that were replenished."""
        n_raw_pieces = sum(1 for _ in episode_event_log.query_events(InventoryEvents.piece_replenished))
        return {"raw_piece_usage_per_step": n_raw_pieces / len(episode_event_log.steps)}
