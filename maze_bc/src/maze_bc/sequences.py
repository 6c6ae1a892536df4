"""Minibatches for policies that carry state: windows of what each actor decided in an episode, with the state before.

An actor's decisions in an episode are a sequence, and every sequence begins with a state of zeros. Sequences are cut
into windows; the gradient passes those of a window, and the state before a window's first decision comes from the
decisions before it. Those states are recomputed where a pass comes to a part, by the weights of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_bc.data import Decisions, Demonstrations, joined, read
from maze_bc.minibatches import Batch, Rows, as_tensors
from maze_bc.parts import Part, Parts, PassSettings
from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.models.recurrence import BEGINS, is_of_critic
from maze_runtime.models.tensor_dict import TensorDict

REPLAYED_ROWS = 4096
"""Decisions of a policy key in one forward pass that recomputes states; a single longer sequence still is."""


class Spans(NamedTuple):
    """Stretches of consecutive decisions of one actor in one episode.

    Attributes:
        first: (W,) int64, the row of the first decision of each.
        length: (W,) int64.
        offset: (W,) int64, decisions of its sequence before the first one.
        sequence: (W,) int64, which sequence each is cut from.
    """

    first: np.ndarray
    length: np.ndarray
    offset: np.ndarray
    sequence: np.ndarray

    def take(self, chosen: np.ndarray) -> Spans:
        """Some of them."""
        return Spans(*(column[chosen] for column in self))

    def cut(self, n_steps: int) -> Spans:
        """Each in pieces of `n_steps` decisions, the last one of what remains.

        >>> Spans(*(np.array([n]) for n in (3, 5, 0, 0))).cut(2)[:3]
        (array([3, 5, 7]), array([2, 2, 1]), array([0, 2, 4]))
        """
        counts = -(-self.length // n_steps)
        whole = np.repeat(np.arange(len(counts)), counts)
        before = n_steps * (np.arange(len(whole)) - np.repeat(np.cumsum(counts) - counts, counts))
        return Spans(
            self.first[whole] + before,
            np.minimum(n_steps, self.length[whole] - before),
            self.offset[whole] + before,
            self.sequence[whole],
        )


class Table(NamedTuple):
    """The decisions of a policy key in several episodes, those of each sequence one behind the other.

    Attributes:
        rows: all of them; weight 0 for those that the policy sees and does not learn.
        sequences: all sequences.
        windows: those with something to learn.
    """

    rows: Rows
    sequences: Spans
    windows: Spans

    def steps(self, spans: Spans, n_steps: int | None = None) -> Rows:
        """Some spans as T·B rows, time-major, of weight 0 behind the end of each; T is the longest, or `n_steps`."""
        n_steps = int(spans.length.max()) if n_steps is None else n_steps
        step = np.arange(n_steps)[:, None]
        device = self.rows.action[next(iter(self.rows.action))].device
        index = torch.from_numpy((spans.first + np.minimum(step, spans.length - 1)).reshape(-1)).to(device)
        exists = torch.from_numpy((step < spans.length).reshape(-1).astype(np.float32)).to(device)
        rows = self.rows.select(index)
        assert self.rows.weight is not None
        weight = exists * self.rows.weight.index_select(0, index)
        begins = torch.zeros_like(exists)
        return rows._replace(observation={**rows.observation, BEGINS: begins}, weight=weight)


class SequenceMinibatches:
    """Passes over some of the episodes in minibatches of windows; the same promises as `Minibatches` makes.

    Args:
        model: its states are recomputed; see `RecurrentModel`.
        demonstrations: where the episodes come from, with the decisions that are not learnt from.
        episodes: which of them.
        settings: of the passes; a minibatch holds one window at least.
        sequence_length: decisions of an actor in a window, at most.

    Attributes:
        demonstrations, episodes: as given.
        n_rows: decisions of a pass that are learnt.
        is_streamed: whether a pass has several parts.
    """

    def __init__(
        self,
        model: RecurrentModel,
        demonstrations: Demonstrations,
        episodes: Sequence[int],
        settings: PassSettings,
        *,
        sequence_length: int,
    ) -> None:
        self.demonstrations, self.episodes = demonstrations, list(episodes)
        self._model = model
        self._sequence_length = sequence_length
        self._targets, self._device = settings.targets, settings.device
        self._states: tuple[tuple[int, int], dict[PolicyKey, TensorDict]] | None = None
        # no more minibatches than there are windows
        settings = attrs.evolve(settings, batch_size=max(settings.batch_size, sequence_length))
        self._parts = Parts(demonstrations, self.episodes, settings, self._load)
        self.n_rows, self.is_streamed = self._parts.n_rows, self._parts.is_streamed

    def n_batches(self, pass_index: int) -> int:
        """Minibatches of a pass."""
        return self._parts.n_batches(pass_index)

    def batch(self, pass_index: int, batch_index: int) -> Batch:
        """One minibatch, of one shape in all of a part: rows of weight 0 fill it up."""
        part = self._parts.part(pass_index, batch_index)
        tables = self._parts.loaded(pass_index, part)
        states = self._states_of(pass_index, part, tables)
        counts = {key: len(table.windows.first) for key, table in tables.items()}
        chosen = self._parts.order(pass_index, part, counts)[batch_index - part.start]
        return {key: self._filled(tables[key], states[key], own, part.n_batches) for key, own in chosen.items()}

    def in_order(self, n_rows: int) -> Iterator[Batch]:
        """All sequences once and whole, shorter ones first; about `n_rows` of a policy key at a time."""
        for _, tables in self._parts.in_order():
            for key, table in tables.items():
                for group in _groups(table.sequences.length, n_rows):
                    rows = table.steps(table.sequences.take(group))
                    yield {key: _with_states(rows, self._zeros(key, len(group)))}

    def state_dict(self, pass_index: int, batch_index: int) -> dict[str, Any]:
        """The states of the windows, where the pass is in the middle of the part that a minibatch belongs to."""
        place = pass_index, self._parts.part(pass_index, batch_index).start
        if self._states is None or self._states[0] != place or batch_index == place[1]:
            return {}
        return {"states": {key: dict(own) for key, own in self._states[1].items()}}

    def load_state_dict(self, state: Mapping[str, Any], pass_index: int, batch_index: int) -> None:
        """Restore what `state_dict` returned."""
        self._states = None
        if "states" in state:
            part = self._parts.part(pass_index, batch_index)
            own = {
                key: {name: tensor.to(self._device) for name, tensor in states.items()}
                for key, states in state["states"].items()
            }
            self._states = (pass_index, part.start), own

    def _load(self, episodes: Sequence[int]) -> dict[PolicyKey, Table]:
        own, spaces = read(self.demonstrations, episodes), self.demonstrations.spaces
        tensors = as_tensors(joined(own, spaces.policy_keys, self._targets), self._device, is_flat=spaces.is_flat)
        return {
            key: _table(rows, [one[key] for one in own if key in one], self._sequence_length)
            for key, rows in tensors.items()
        }

    def _filled(self, table: Table, states: TensorDict, index: Tensor, n_batches: int) -> Rows:
        """The windows of `index` and as many of weight 0 as make all minibatches of the policy key equally large."""
        n_windows = -(-len(table.windows.first) // n_batches)
        n_steps = self._sequence_length if self.is_streamed else int(table.windows.length.max())
        chosen = np.resize(index.cpu().numpy(), n_windows) if len(index) else np.zeros(n_windows, np.int64)
        rows = table.steps(table.windows.take(chosen), n_steps)
        assert rows.weight is not None
        rows.weight.view(n_steps, n_windows)[:, len(index) :] = 0.0
        places = torch.from_numpy(chosen).to(self._device)
        return _with_states(rows, {name: state.index_select(0, places) for name, state in states.items()})

    def _states_of(
        self, pass_index: int, part: Part, tables: Mapping[PolicyKey, Table]
    ) -> Mapping[PolicyKey, TensorDict]:
        """By policy key, name to the states (W, S) before the first decision of each window."""
        if self._states is None or self._states[0] != (pass_index, part.start):
            with torch.no_grad(), evaluation_mode(self._model.modules()):  # type: ignore[attr-defined]
                states = {key: self._states_before(key, table) for key, table in tables.items()}
            self._states = (pass_index, part.start), states
        return self._states[1]

    def _states_before(self, key: PolicyKey, table: Table) -> TensorDict:
        """States (W, S) before the windows of a policy key, from the beginning of each sequence on."""
        windows, sequences = table.windows, table.sequences
        states = self._zeros(key, len(windows.first))
        later = np.flatnonzero(windows.offset)
        # only as far as the last window of each
        needed = np.zeros(len(sequences.first), np.int64)
        np.maximum.at(needed, windows.sequence[later], windows.offset[later])
        for group in _groups(needed, REPLAYED_ROWS):
            spans = sequences.take(group)._replace(length=needed[group])
            rows = _with_states(table.steps(spans), self._zeros(key, len(group)))
            after = self._model.advance(key, rows.observation, rows.agent_id, with_value=False)[2]
            column = np.full(len(needed), -1)
            column[group] = np.arange(len(group))
            mine = later[column[windows.sequence[later]] >= 0]
            where = (windows.offset[mine] - 1) * len(group) + column[windows.sequence[mine]]
            for name, state in after.items():
                states[name][torch.from_numpy(mine).to(self._device)] = state[torch.from_numpy(where).to(self._device)]
        return states

    def _zeros(self, key: PolicyKey, n_rows: int) -> TensorDict:
        shapes = self._model.state_shapes(key)
        own = {name: shape for name, shape in shapes.items() if not is_of_critic(name)}
        return {name: torch.zeros(n_rows, *shape, device=self._device) for name, shape in own.items()}


def _with_states(rows: Rows, states: TensorDict) -> Rows:
    return rows._replace(observation={**rows.observation, **states})


def _groups(lengths: np.ndarray, n_rows: int) -> Iterator[np.ndarray]:
    """Indices of the lengths above 0, those that are alike together: as many as have about `n_rows` steps padded."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    while len(order):
        fits = np.flatnonzero(lengths[order] * np.arange(1, len(order) + 1) <= n_rows)
        n_taken = int(fits[-1]) + 1 if len(fits) else 1
        yield order[:n_taken]
        order = order[n_taken:]


def _table(rows: Rows, parts: Sequence[Decisions], sequence_length: int) -> Table:
    """Decisions of a policy key, those of several episodes one behind the other, as sequences and windows."""
    episode = np.repeat(np.arange(len(parts)), [len(own.agent_id) for own in parts])
    agent = np.concatenate([own.agent_id for own in parts])
    place = np.concatenate([own.place for own in parts])
    kept = np.concatenate([np.ones(len(own.agent_id), bool) if own.kept is None else own.kept for own in parts])
    order = np.lexsort((place, agent, episode))
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(episode[order]) != 0) | (np.diff(agent[order]) != 0)
    first = np.flatnonzero(begins)
    length = np.diff(np.append(first, len(order)))
    sequences = Spans(first, length, np.zeros_like(first), np.arange(len(first)))
    windows = sequences.cut(sequence_length)
    n_kept = np.append(0, np.cumsum(kept[order]))
    learnt = n_kept[windows.first + windows.length] > n_kept[windows.first]
    index = torch.from_numpy(order).to(next(iter(rows.action.values())).device)
    weight = torch.from_numpy(kept[order].astype(np.float32)).to(index.device)
    return Table(rows.select(index)._replace(weight=weight), sequences, windows.take(np.flatnonzero(learnt)))
