"""What the files of an export are fed with and give back, as JSON data: `policy.onnx.json` beside `policy.onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from maze_deployment.policy_graph import n_agents, state_names
from maze_kernel import __version__
from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.run.assembly import Assembly

FORMAT = 1
"""Version of the description, written to every one."""


def describe_export(
    assembly: Assembly, model: ActorCritic, inner: StructuredSpaces, paths: Mapping[PolicyKey, Path]
) -> dict[str, Any]:
    """All but the run and its epoch.

    Args:
        inner: the spaces outside of the files: those of the environment inside the wrappers that were left out.
        paths: policy key to file.
    """
    wrappers = assembly.experiment.wrappers
    n_outside = len(wrappers) - len(assembly.transform_selections)
    return {
        "format": FORMAT,
        "written_by": f"maze-kernel {__version__}",
        "wrappers_inside": [wrapper.use for wrapper in wrappers[n_outside:]],
        "wrappers_outside": [wrapper.use for wrapper in wrappers[:n_outside]],
        "policies": {
            key: {
                "file": path.name,
                "observation": _describe_dict(inner.observation[key]),
                "action": _describe_dict(inner.action[key]),
                "logits": {name: list(shape) for name, shape in model.distributions[key].logits_shapes().items()},
                **_describe_states(model, key),
                **_describe_agents(model, key),
            }
            for key, path in paths.items()
        },
    }


def _describe_states(model: ActorCritic, key: PolicyKey) -> dict[str, Any]:
    """What goes in as `state.NAME` and comes out as `next_state.NAME`; nothing where the policy carries nothing."""
    names = state_names(model, key)
    if not names:
        return {}
    shapes = cast(RecurrentModel, model).state_shapes(key)
    states = {name: {"shape": list(shapes[own]), "dtype": "float32", "at_begin": 0.0} for name, own in names.items()}
    return {"states": states}


def _describe_agents(model: ActorCritic, key: PolicyKey) -> dict[str, Any]:
    """How many there are to choose from by `actor.agent_id`; nothing where a file is not told who decides."""
    n_told = n_agents(model, key)
    return {"n_agents": n_told} if n_told else {}


def _describe_dict(space: spaces.Dict) -> dict[str, Any]:
    return {name: describe_space(leaf) for name, leaf in space.spaces.items()}


def describe_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as JSON data; bounds as one number where all are equal, None where there is none."""
    data: dict[str, Any] = {"space": type(space).__name__, "shape": list(space.shape or ()), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Box):
        data |= {"low": _bound(space.low), "high": _bound(space.high)}
    elif isinstance(space, spaces.Discrete):
        data |= {"n": int(space.n), "start": int(space.start)}
    elif isinstance(space, spaces.MultiDiscrete):
        data |= {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
    return data


def _bound(bound: np.ndarray) -> Any:
    if (bound == bound.reshape(-1)[:1]).all() and bound.size:
        value = bound.reshape(-1)[0].item()
        return value if np.isfinite(value) else None
    return np.where(np.isfinite(bound), bound.astype(object), np.array(None)).tolist()
