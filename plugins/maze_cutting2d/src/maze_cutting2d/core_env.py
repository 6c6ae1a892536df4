"""The simulation: one order a step, cut from a piece of the inventory."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from maze_cutting2d.demand import Demand
from maze_cutting2d.events import CuttingEvents, InventoryEvents
from maze_cutting2d.inventory import Inventory
from maze_cutting2d.kpi import CuttingKpiCalculator
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.states import CutAction, CuttingAction, CuttingState, SelectAction
from maze_kernel.contracts.env import ActorID, PolicyKey
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.renderer import Renderer
from maze_runtime.events.kpi import KpiCalculator

SELECT: PolicyKey = "select"
CUT: PolicyKey = "cut"


class CuttingCoreEnv(CoreEnv[CuttingState, CuttingAction]):
    """Each step one order comes in and has to be cut from one piece.

    What is left of the piece goes back to the inventory. A raw piece that is cut is replaced by a fresh one. An
    action that cannot be carried out loses the order. The reward comes from a reward aggregator.
    """

    def __init__(self, options: CuttingOptions) -> None:
        super().__init__()
        self._options = options
        self._raw = (options.raw_piece_size[0], options.raw_piece_size[1])
        self._cutting_events = self.pubsub.create_event_topic(CuttingEvents)
        self._inventory_events = self.pubsub.create_event_topic(InventoryEvents)
        self._demand = Demand(options)
        self._steps = 0
        self._inventory = Inventory(options.max_pieces_in_inventory, self._raw, self._inventory_events)
        self._order = self._demand.next()

    def reset(self, seed: int | None = None) -> CuttingState:
        """An inventory of one raw piece."""
        self._demand.reset(seed)
        self._steps = 0
        self._inventory = Inventory(self._options.max_pieces_in_inventory, self._raw, self._inventory_events)
        self._inventory.replenish()
        self._order = self._demand.next()
        return self.get_maze_state()

    def step(self, maze_action: CuttingAction) -> tuple[CuttingState, float, bool, bool, dict[str, Any]]:
        """Try to cut the order; then the next one comes in."""
        self._cut(maze_action)
        self._inventory_events.pieces_in_inventory(value=len(self._inventory.pieces))
        self._order = self._demand.next()
        self._steps += 1
        return self.get_maze_state(), 0.0, False, self._steps == self._options.max_episode_steps, {}

    def get_maze_state(self) -> CuttingState:
        """Inventory and order as they are now."""
        return CuttingState(
            inventory=tuple(self._inventory.pieces),
            max_pieces_in_inventory=self._options.max_pieces_in_inventory,
            current_demand=self._order,
            raw_piece_size=self._raw,
        )

    def get_renderer(self) -> Renderer | None:
        """Draws the chosen piece beside the inventory."""
        from maze_cutting2d.renderer import CuttingRenderer

        return CuttingRenderer()

    def get_kpi_calculator(self) -> KpiCalculator:
        """Raw pieces a step."""
        return CuttingKpiCalculator()

    def clone_from(self, other: CuttingCoreEnv) -> None:
        """Take over inventory, order, step count and the random state of the demand."""
        self._inventory.pieces = list(other._inventory.pieces)
        self._order, self._steps = other._order, other._steps
        self._demand = copy.deepcopy(other._demand)

    def _cut(self, action: CuttingAction) -> None:
        pieces = self._inventory.pieces
        if not 0 <= action.piece_id < len(pieces):
            self._cutting_events.invalid_piece_selected()
            return
        piece = pieces[action.piece_id]
        done = self._inventory.cut(action, self._order)
        report = self._cutting_events.valid_cut if done else self._cutting_events.invalid_cut
        report(current_demand=self._order, piece_to_cut=piece, raw_piece_size=self._raw)
        if done and piece == self._raw:
            self._inventory.replenish()


class StructuredCuttingCoreEnv(CuttingCoreEnv):
    """The same problem in two sub-steps: policy "select" chooses a piece, policy "cut" how it is cut.

    The reward is that of the cut, unless the slot that was selected was empty: no cut could have changed that.
    """

    def __init__(self, options: CuttingOptions) -> None:
        super().__init__(options)
        self._selected: int | None = None
        self._slot_was_empty = False

    def reset(self, seed: int | None = None) -> CuttingState:
        """An inventory of one raw piece; "select" decides first."""
        self._selected = None
        return super().reset(seed)

    def step(  # type: ignore[override]
        self, maze_action: SelectAction | CutAction
    ) -> tuple[CuttingState, float, bool, bool, dict[str, Any]]:
        """Remember the piece, or cut it."""
        if isinstance(maze_action, SelectAction):
            self._selected = maze_action.piece_id
            return self.get_maze_state(), 0.0, False, False, {}
        assert self._selected is not None
        whole = CuttingAction(
            piece_id=self._selected,
            rotate=maze_action.rotate,
            reverse_cutting_order=maze_action.reverse_cutting_order,
        )
        self._selected = None
        self._slot_was_empty = not 0 <= whole.piece_id < len(self._inventory.pieces)
        return super().step(whole)

    def get_maze_state(self) -> CuttingState:
        """Inventory, order, and the piece selected for it."""
        return attrs.evolve(super().get_maze_state(), selected_piece_id=self._selected)

    def actor_id(self) -> ActorID:
        """ "select", then "cut"."""
        return ActorID(SELECT if self._selected is None else CUT, 0)

    @property
    def agent_counts(self) -> Mapping[PolicyKey, int]:
        """One agent each."""
        return {SELECT: 1, CUT: 1}

    def is_flat_step_end(self) -> bool:
        """Time advances with the cut."""
        return self._selected is None

    def preview_sub_step(
        self,
        maze_state: CuttingState,
        maze_action: SelectAction | CutAction,  # type: ignore[override]
    ) -> tuple[CuttingState, ActorID] | None:
        """The piece selected; "cut" decides next."""
        if isinstance(maze_action, SelectAction):
            return attrs.evolve(maze_state, selected_piece_id=maze_action.piece_id), ActorID(CUT, 0)
        return None

    def get_actor_rewards(self, reward: float) -> np.ndarray:
        """That of "select" and that of "cut"; what comes with the cut still counts in the return of the selection."""
        return np.array([reward, 0.0] if self._slot_was_empty else [0.0, reward], np.float32)

    def clone_from(self, other: CuttingCoreEnv) -> None:
        """Take over the piece selected, too."""
        super().clone_from(other)
        assert isinstance(other, StructuredCuttingCoreEnv)
        self._selected, self._slot_was_empty = other._selected, other._slot_was_empty
