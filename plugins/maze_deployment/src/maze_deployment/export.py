"""`maze export`: a trained policy as files that act without Maze, in ONNX or as a `torch.export` program.

Each policy key becomes one file, and one JSON file beside them says what goes in and what comes out. A file is checked
against the policy it was made of, and none is replaced before all are checked.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np
import torch
from gymnasium import spaces

from maze_deployment import onnx_file
from maze_deployment.description import describe_export
from maze_deployment.policy_graph import ACTOR, NEXT_STATE, STATE, PolicyGraph, state_names
from maze_deployment.random_observations import random_observations
from maze_deployment.source import open_source
from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_kernel.errors import MazeError, RequestError
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.graph_building import file_names
from maze_runtime.models.masking import MASKED_BELOW
from maze_runtime.models.network_policy import require_sampling
from maze_runtime.models.recurrence import BEGINS
from maze_runtime.playing.players import load_weights, weights_of
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.storage import Storage, encode_json, replace_files
from maze_runtime.run.writable import require_writable, writing

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.contracts.model import ActorCritic
    from maze_kernel.contracts.transform import Transform
    from maze_kernel.loader import Kernel
    from maze_kernel.selection import Selection
    from maze_runtime.context import RunContext
    from maze_runtime.training.checkpoint import Checkpoint

OWNER = "maze-deployment"

FORMATS = {"onnx": ".onnx", "torch-export": ".pt2"}
"""Formats and the usual ending of their files."""

N_CHECKED = 64
"""Random observations that a file is checked with."""

TOLERANCE = 1e-5
"""Greatest difference of an action or a logit, relative to the greatest one where that is above one."""

_ELSEWHERE = "name a file in a folder that this process may write to"


@attrs.frozen(kw_only=True)
class ExportedFile:
    """One file that was written.

    Attributes:
        policy_key: the policy in it.
        path: the file.
        difference: greatest difference of an action or logit from the policy's own.
    """

    policy_key: PolicyKey
    path: Path
    difference: float


@attrs.frozen(kw_only=True)
class Export:
    """What was written: one file a policy key, and the description of all."""

    files: tuple[ExportedFile, ...]
    description: Path


def export_policy(
    run: RunContext | Path | str,
    out: Path | str,
    *,
    format_name: str = "onnx",
    checkpoint: str = "best",
    experiment: Path | str | None = None,
    kernel: Kernel | None = None,
) -> Export:
    """Write the policy of a run.

    Args:
        run: a run directory or a `RunContext` that has trained.
        out, format_name: see `export_checkpoint`.
        checkpoint: "best", "last" or "epoch-N".
        experiment: the experiment file of a run directory, where it imports code by path.
        kernel: the plugins to use for a run directory; None: everything that is installed.

    Raises:
        RequestError: there is no such run or checkpoint, or nothing is trained; and as `export_checkpoint`.
        MazeError: see `export_checkpoint`.
    """
    source = open_source(run, checkpoint=checkpoint, experiment=experiment, kernel=kernel)
    if source.checkpoint is None:
        raise RequestError(
            "there is nothing trained to export", expected="a run directory, or a context that has trained"
        )
    return export_checkpoint(source.loaded, source.kernel, source.checkpoint, Path(out), format_name)


def export_checkpoint(
    loaded: LoadedExperiment, kernel: Kernel, checkpoint: Checkpoint, out: Path, format_name: str = "onnx"
) -> Export:
    """Write the policy of a checkpoint. Modules of its networks with a method `prepare_for_export()` are told before.

    Args:
        loaded: the experiment of the run.
        kernel: where its components are found.
        checkpoint: weights and wrapper statistics.
        out: the file; with several policy keys `policy.onnx` becomes `policy-select.onnx`, `policy-cut.onnx`.
        format_name: one of `FORMATS`.

    Raises:
        RequestError: an unknown format, a package that is not installed, a wrapper without a form in torch, a model
            that acts by another rule than its distributions, or a file that cannot be written.
        MazeError: the model cannot be traced, or what was traced acts differently.
    """
    require_writable(out.absolute().parent, "the export", help=_ELSEWHERE)
    if format_name not in FORMATS:
        raise RequestError(f"there is no export format {format_name!r}", expected=", ".join(FORMATS))
    if format_name == "onnx":
        onnx_file.require_packages()
    assembly = Assembly(loaded, kernel)
    _refuse_wrapper(assembly.policy_wrapper)
    inner, transforms = _bound_transforms(assembly, checkpoint)
    model = load_weights(assembly.make_model(), weights_of(checkpoint))
    require_sampling(
        model, "maze-deployment", help="deploy the run with AgentDeployment, which asks the model's policy"
    )
    for module in model.modules():  # type: ignore[attr-defined]
        if hasattr(module, "prepare_for_export"):
            module.prepare_for_export()
        module.requires_grad_(False)  # or what the program answers would carry gradients, and be no NumPy array
    files, contents = [], {}
    for key, name in zip(inner.policy_keys, file_names(inner.policy_keys), strict=True):
        graph = PolicyGraph(model, key, transforms, action_space=inner.action[key])
        path = out if len(inner.policy_keys) == 1 else out.with_name(f"{out.stem}-{name}{out.suffix}")
        contents[path], difference = _checked(graph, _Example.of(inner, graph, model, transforms), format_name)
        files.append(ExportedFile(policy_key=key, path=path, difference=difference))
    description = out.with_name(f"{out.name}.json")
    about = {"run": loaded.experiment.name, "epoch": checkpoint.epoch, "file_format": format_name}
    data = about | describe_export(assembly, model, inner, {file.policy_key: file.path for file in files})
    with writing(out, "the export", help=_ELSEWHERE):
        replace_files(Storage(), {**contents, description: encode_json(data)})
    return Export(files=tuple(files), description=description)


def _refuse_wrapper(wrapper: Selection | None) -> None:
    if wrapper is not None:
        raise RequestError(
            "a policy with rules around it cannot be exported",
            received=f"trainer.policy_wrapper = {wrapper.use!r}",
            expected="a policy that is a network alone",
            location=wrapper.location,
            owner=wrapper.owner,
            help="deploy the run with AgentDeployment, which acts through the wrapper",
        )


def _bound_transforms(assembly: Assembly, checkpoint: Checkpoint) -> tuple[StructuredSpaces, list[Transform]]:
    assembly.load_transform_states(checkpoint.transforms)
    env = assembly.env_factory(training=False)()
    try:
        inner = env.structured_spaces
    finally:
        env.close()
    assembly.bind(assembly.transforms, inner)
    return inner, assembly.transforms


@attrs.frozen
class _Example:
    """Random observations, states and agents of one policy key, and what the policy makes of them on its usual way.

    Attributes:
        agents: who decides, where a file is told; else empty.
    """

    observation: ArrayDict
    states: ArrayDict
    agents: ArrayDict
    logits: ArrayDict
    after: ArrayDict
    act: Callable[[ArrayDict], ArrayDict]
    """Logits to the environment's actions."""

    @classmethod
    def of(
        cls, inner: StructuredSpaces, graph: PolicyGraph, model: ActorCritic, transforms: list[Transform]
    ) -> _Example:
        key, rng = graph.policy_key, np.random.default_rng(0)
        raw = seen = random_observations(inner.observation[key], inner.action[key], N_CHECKED, seed=0)
        for transform in transforms:
            seen = transform.observation(key, seen)
        states = {
            name: rng.uniform(-1.0, 1.0, (N_CHECKED, *shape)).astype(np.float32)
            for name, shape in graph.state_shapes.items()
        }
        agents = {"agent_id": rng.integers(graph.n_agents, size=N_CHECKED)} if graph.n_agents else {}
        logits, after = _usual_way(model, key, seen, states, agents)

        def act(logits: ArrayDict) -> ArrayDict:
            action = model.distributions[key].mode_numpy(logits)
            for transform in reversed(transforms):
                action = transform.action(key, action)
            return {name: _in_dtype_of(inner.action[key][name], array) for name, array in action.items()}

        return cls(raw, states, agents, logits, after, act)

    def inputs(self) -> ArrayDict:
        """By their names in a file."""
        states = {f"{STATE}.{name}": array for name, array in self.states.items()}
        return {**self.observation, **states, **{f"{ACTOR}.{name}": array for name, array in self.agents.items()}}

    def tensors(self) -> dict[str, Any]:
        """As the arguments of `PolicyGraph`, by name."""
        groups = {"observation": self.observation, **({"states": self.states} if self.states else {})}
        return {name: _tensors(group) for name, group in groups.items()} | _tensors(self.agents)


def _in_dtype_of(space: spaces.Space[Any], action: np.ndarray) -> np.ndarray:
    is_float = space.dtype is not None and space.dtype.kind == "f"
    return action.astype(space.dtype, copy=False) if is_float else action


def _tensors(arrays: ArrayDict) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _usual_way(
    model: ActorCritic, key: PolicyKey, seen: ArrayDict, states: ArrayDict, agents: ArrayDict
) -> tuple[ArrayDict, ArrayDict]:
    """Logits, and the states after one step."""
    names = state_names(model, key)
    inputs = {**seen, **{names[name]: array for name, array in states.items()}}
    if states:
        inputs[BEGINS] = np.zeros(N_CHECKED, np.float32)
    with torch.inference_mode():
        tensors, agent_id = _tensors(inputs), _tensors(agents).get("agent_id")
        if not states:
            return {name: tensor.numpy() for name, tensor in model.logits(key, tensors, agent_id).items()}, {}
        logits, _, after = cast(RecurrentModel, model).advance(key, tensors, agent_id, with_value=False)
        return {name: tensor.numpy() for name, tensor in logits.items()}, {
            name: after[own].numpy() for name, own in names.items()
        }


def _checked(graph: PolicyGraph, example: _Example, format_name: str) -> tuple[bytes, float]:
    """What a file holds, and the greatest difference from the policy's own actions, logits and states."""
    program = _traced(graph, example.tensors())
    if format_name == "onnx":
        names = (graph.heads, tuple(example.logits), tuple(example.after))
        content = onnx_file.encode(program, tuple(example.inputs()), output_names(*names))
        action, logits, after = onnx_file.run(content, example.inputs(), names)
    else:
        content = _saved(program)
        action, logits, after = _run(program, example.tensors())
    wanted = (example.act(logits), example.logits, example.after)
    difference = float(np.max([*map(_difference, (action, logits, after), wanted)]))
    if not difference <= TOLERANCE:
        key = graph.policy_key
        raise MazeError(
            f"the exported policy of key {key!r} does not act like the trained one, so nothing was written",
            received=f"actions, logits or states that differ by {difference:.3g}",
            expected=f"at most {TOLERANCE:g}",
            help="export the other format, or deploy the run with AgentDeployment",
        )
    return content, difference


def output_names(action: Iterable[str], logits: Iterable[str], states: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of an ONNX file's outputs, of the environment's action heads, the policy's, and its states."""
    of_heads = (*(f"actions.{head}" for head in action), *(f"logits.{head}" for head in logits))
    return (*of_heads, *(f"{NEXT_STATE}.{name}" for name in states))


def _traced(graph: PolicyGraph, example: dict[str, Any]) -> torch.export.ExportedProgram:
    rows = {0: torch.export.Dim("batch", min=1)}
    shapes = {name: dict.fromkeys(group, rows) if isinstance(group, dict) else rows for name, group in example.items()}
    args, kwargs = _split(example)
    try:
        with torch.no_grad():
            return torch.export.export(graph, args, kwargs, dynamic_shapes=shapes, strict=False)
    except MazeError:
        raise
    except Exception as error:
        raise MazeError(
            f"the policy of key {graph.policy_key!r} cannot be traced by torch.export: {type(error).__name__}",
            received=str(error).strip().splitlines()[0][:300] if str(error).strip() else None,
            help="its blocks must be made of torch operations alone; or deploy the run with AgentDeployment",
        ) from error


def _saved(program: torch.export.ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _split(example: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Dicts by their place, and who decides by name: so a program is called."""
    dicts = tuple(group for group in example.values() if isinstance(group, dict))
    return dicts, {name: tensor for name, tensor in example.items() if not isinstance(tensor, dict)}


def _run(program: torch.export.ExportedProgram, example: dict[str, Any]) -> list[ArrayDict]:
    """Actions, logits and the states after the step."""
    args, kwargs = _split(example)
    with torch.inference_mode():
        groups = program.module()(*args, **kwargs)
    arrays = [{name: value.numpy() for name, value in group.items()} for group in groups]
    return arrays if len(arrays) == 3 else [*arrays, {}]


def _difference(ours: ArrayDict, theirs: ArrayDict) -> float:
    """Greatest difference, relative to the greatest number where that is above one; infinite for other shapes.

    NaN where a number is NaN. One rounding to float16 does not count, since two float32 that are nearly equal may
    become neighbours there.
    """
    if {name: array.shape for name, array in ours.items()} != {name: array.shape for name, array in theirs.items()}:
        return math.inf
    found = [_difference_of(array, theirs[name].astype(np.float64)) for name, array in ours.items()]
    return float(np.max(found, initial=0.0))  # max() would pass over NaN


def _difference_of(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Forbidden choices are far from all others, which would be nothing in proportion to them."""
    counts = ~((theirs <= MASKED_BELOW) & np.isclose(ours, theirs, rtol=TOLERANCE, atol=0.0))
    ours, theirs = ours[counts], theirs[counts]
    relative = float(np.max(np.abs(ours - theirs), initial=0.0) / np.max(np.abs(theirs), initial=1.0))
    return float(np.maximum(0.0, relative - np.finfo(np.float16).eps)) if ours.dtype == np.float16 else relative
