"""Experiments at random: spaces that environments may have, and options that the JSON Schema allows.

Most are nonsense that nobody would train. They run, or an error says why they cannot.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_kernel.config.json_schema import schema
from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.loader import Kernel
from maze_runtime.env.flat import FlatEnv

TRAINERS = ("ppo", "a2c", "sac", "es", "impala")
"""That take any action; `td3` takes numbers alone, `dqn` choices alone."""
LEFT_OUT = {"use", "n_epochs", "max_env_steps", "patience", "device", "compile", "policy_wrapper", "demonstrations"}
"""Options of trainers and models that make a run long, name files, or belong to what this module chooses itself."""
WRAPPERS_LEFT_OUT = {"video-recording", "observation-visualization", "trajectory-recording", "action-recording"}
SMALL = {
    "ppo": {"epoch_length": 3, "n_rollout_steps": 5},
    "a2c": {"epoch_length": 3, "n_rollout_steps": 5},
    "impala": {"epoch_length": 3, "n_rollout_steps": 5},
    "sac": {"epoch_length": 3, "n_rollout_steps": 8, "initial_buffer_size": 20, "batch_size": 8},
    "td3": {"epoch_length": 3, "n_rollout_steps": 8, "initial_buffer_size": 20, "batch_size": 8},
    "dqn": {"epoch_length": 3, "n_rollout_steps": 8, "initial_buffer_size": 20, "batch_size": 8},
    "es": {"n_rollouts_per_update": 4, "noise": {"use": "table", "size": 200_000}},
}


class AtRandom(FlatEnv):
    """Observes, pays and ends at random; its spaces follow from a seed.

    Args:
        space_seed: of the spaces.
        n_keys: policy keys, which decide in turn; 1: a flat environment.
        mask: forbid some choices of every Discrete action.
    """

    def __init__(self, *, space_seed: int, n_keys: int = 1, mask: bool = False) -> None:
        draw = random.Random(space_seed)
        keys = ["0"] if n_keys == 1 else [f"key{i}" for i in range(n_keys)]
        counts = {key: 1 if n_keys == 1 else draw.choice([1, 2]) for key in keys}
        observation, action = ({key: _dict(draw, kind) for key in keys} for kind in (_observation, _action))
        self._choices = {key: _choices(action[key]) if mask else {} for key in keys}
        for key, own in self._choices.items():
            masks = {f"{head}_mask": spaces.MultiBinary(n) for head, n in own.items()}
            observation[key] = spaces.Dict({**observation[key].spaces, **masks})
        self.structured_spaces = StructuredSpaces(observation=observation, action=action, agent_counts=counts)
        self._actors = [ActorID(key, agent) for key in keys for agent in range(counts[key])]
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
            for space in self.structured_spaces.observation.values():
                space.seed(seed % 2**31)
        self._n_decisions, self._n_left = 0, int(self._rng.integers(2, 12)) * len(self._actors)
        return self._see(), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        key = self.actor_id().step_key
        for head, space in self.structured_spaces.action[key].spaces.items():
            assert space.contains(action[head] if space.shape == () else np.asarray(action[head], space.dtype))
        for head, allowed in self._allowed.items():
            assert allowed[action[head]]
        self._n_decisions += 1
        is_over, is_cut = self._n_decisions == self._n_left, bool(self._rng.integers(2))
        return self._see(), float(self._rng.normal()), is_over and not is_cut, is_over and is_cut, {}

    def actor_id(self) -> ActorID:
        return self._actors[self._n_decisions % len(self._actors)]

    def is_flat_step_end(self) -> bool:
        return self._n_decisions % len(self._actors) == 0

    def _see(self) -> dict[str, Any]:
        key = self.actor_id().step_key
        self._allowed = {head: self._mask(n) for head, n in self._choices[key].items()}
        masks = {f"{head}_mask": mask for head, mask in self._allowed.items()}
        return {**self.structured_spaces.observation[key].sample(), **masks}

    def _mask(self, n_choices: int) -> np.ndarray:
        mask = self._rng.integers(2, size=n_choices, dtype=np.int8)
        mask[self._rng.integers(n_choices)] = 1
        return mask


def _dict(draw: random.Random, kind: Any) -> spaces.Dict:
    return spaces.Dict({name: kind(draw) for name in "ab"[: draw.choice([1, 1, 2])]})


def _observation(draw: random.Random) -> spaces.Space[Any]:
    return draw.choice(
        [
            spaces.Box(-1, 1, (draw.randint(1, 4),), np.float32),
            spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
            spaces.Box(0, 255, (36, 36, 1), np.uint8),
            spaces.Box(-5, 5, (3,), np.float64),
            spaces.Box(0, 10, (2,), np.int32),
            spaces.Box(-1, 1, (), np.float32),
            spaces.Discrete(draw.randint(2, 4)),
            spaces.MultiDiscrete([2, 3]),
            spaces.MultiBinary(3),
        ]
    )


def _action(draw: random.Random) -> spaces.Space[Any]:
    low, high = draw.choice([(-1, 1), (0, 2), (-np.inf, np.inf), (0, np.inf)])
    return draw.choice(
        [
            spaces.Discrete(draw.randint(2, 5)),
            spaces.Discrete(3),
            spaces.MultiDiscrete([2, 3]),
            spaces.MultiBinary(3),
            spaces.Box(low, high, (draw.randint(1, 3),), np.float32),
        ]
    )


def _choices(action: spaces.Dict) -> dict[str, int]:
    return {head: int(own.n) for head, own in action.spaces.items() if isinstance(own, spaces.Discrete)}


class Experiments:
    """Draws experiments for what is installed."""

    def __init__(self, kernel: Kernel) -> None:
        self._definitions: dict[str, Any] = schema(kernel)["$defs"]
        wrappers = {
            name.split(".", 2)[2]: name for name in self._definitions if name.startswith("wrapper.maze-wrappers")
        }
        self._wrappers = {name: own for name, own in wrappers.items() if name not in WRAPPERS_LEFT_OUT}

    def experiment(self, seed: int) -> dict[str, Any]:
        """The experiment of a seed, which is always the same."""
        draw = random.Random(seed)
        env = {"space_seed": draw.randrange(10**6), "n_keys": draw.choice([1, 1, 2, 3]), "mask": draw.random() < 0.3}
        told = AtRandom(**env).structured_spaces
        heads = [own for action in told.action.values() for own in action.spaces.values()]
        are_numbers = {isinstance(own, spaces.Box) for own in heads}
        trainer = draw.choice(
            [*TRAINERS, *({True: ["td3"], False: ["dqn"]}[are_numbers.pop()] if len(are_numbers) == 1 else [])]
        )
        names = sorted({name for own in (*told.observation.values(), *told.action.values()) for name in own.spaces})
        options = self._table(draw, self._component("trainer", trainer), 0.2, names)
        experiment: dict[str, Any] = {
            "name": "at-random",
            "env": {"use": "random_experiments:AtRandom", **env},
            "trainer": {**options, **SMALL[trainer], "use": trainer, "n_epochs": 2},
            "vector": {"n_envs": draw.randint(1, 3)},
            "evaluation": {"n_episodes": 1},
            "seed": draw.randrange(1000),
        }
        chosen = draw.sample(sorted(self._wrappers), draw.choice([0, 0, 0, 1, 2]))
        if chosen or draw.random() < 0.3:
            experiment["wrappers"] = [
                {**self._table(draw, self._definitions[self._wrappers[name]], 0.5, names), "use": name}
                for name in chosen
            ]
        if draw.random() < 0.5:
            model = self._table(draw, self._component("model", "auto"), 0.2, names)
            experiment["model"] = {**model, "hidden_units": [8], "use": "auto"}
        return experiment

    def _component(self, kind: str, name: str) -> dict[str, Any]:
        return next(
            own for key, own in self._definitions.items() if key.startswith(f"{kind}.") and key.endswith(f".{name}")
        )

    def _table(self, draw: random.Random, described: dict[str, Any], part: float, names: list[str]) -> dict[str, Any]:
        """A table with all options that must be there, and a part of the others."""
        required = described.get("required", [])
        values = {
            name: self._value(draw, own, names)
            for name, own in described["properties"].items()
            if name not in LEFT_OUT and (name in required or draw.random() < part)
        }
        return {name: value for name, value in values.items() if value is not None}

    def _value(self, draw: random.Random, described: dict[str, Any], names: list[str]) -> Any:
        """A value of a type, at its bounds above all; None where there is none to be had."""
        own = dict(described)
        while "$ref" in own:
            own = {**self._definitions[own.pop("$ref").rsplit("/", 1)[1]], **own}
        if "enum" in own or "const" in own:
            return draw.choice(own.get("enum", [own.get("const")]))
        for either in ("anyOf", "oneOf"):
            if either in own:
                return self._value(draw, draw.choice(own[either]), names)
        kind, default = own.get("type"), own.get("default")
        if kind == "boolean":
            return draw.random() < 0.5
        if kind in ("integer", "number"):
            return _number(draw, own)
        if kind == "string":
            return default if default is not None and draw.random() < 0.5 else draw.choice(names)
        if kind == "array":
            items = own.get("prefixItems") or [own.get("items", {})] * draw.randint(own.get("minItems", 0), 2)
            return [value for value in (self._value(draw, item, names) for item in items) if value is not None]
        if kind == "object" and "properties" in own:
            use = own["properties"].get("use", {})
            return {**self._table(draw, own, 0.3, names), **({"use": use["const"]} if "const" in use else {})}
        return default


def _number(draw: random.Random, described: dict[str, Any]) -> float:
    is_whole = described["type"] == "integer"
    low, high = described.get("minimum"), described.get("maximum")
    above, below = described.get("exclusiveMinimum"), described.get("exclusiveMaximum")
    step = 1 if is_whole else 1e-3
    first = low if low is not None else above + step if above is not None else -step
    last = high if high is not None else below - step if below is not None else max(first, 20 if is_whole else 1.0)
    number = draw.choice([first, last, draw.uniform(first, last)])
    return round(number) if is_whole else float(number)
