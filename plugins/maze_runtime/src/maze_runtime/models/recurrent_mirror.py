"""Networks that carry state, evaluated in NumPy while acting: one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.recurrence import next_state_name

Mirror = Callable[[ArrayDict], ArrayDict]

RecurrentMirror = Callable[[ArrayDict], tuple[ArrayDict, ArrayDict]]
"""Observation with states and `BEGINS`, (n, ...) each, to logits by head and the states after the step by name."""


def mirror_with_states(
    encode: Mirror, mirrors: Mapping[str, Mirror], states: Mapping[str, Iterable[str]]
) -> RecurrentMirror:
    """`RecurrentModel.advance` without values, in NumPy.

    Args:
        encode: the observation.
        mirrors: role to its network, in the order in which they run; each reads what those before it give.
        states: role to the names of its states.
    """
    parts = []
    for role, mirror in mirrors.items():
        names = [(name, f"{role}:{name}", next_state_name(name)) for name in states.get(role, ())]
        parts.append((mirror, tuple(names)))

    def run(observation: ArrayDict) -> tuple[ArrayDict, ArrayDict]:
        features, outputs, after = encode(observation), ArrayDict(), ArrayDict()
        for mirror, names in parts:
            features = {**features, **outputs, **{name: observation[full] for name, full, _ in names}}
            outputs = mirror(features)
            for _, full, following in names:
                after[full] = outputs.pop(following)
        return outputs, after

    return run
