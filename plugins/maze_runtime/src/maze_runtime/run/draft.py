"""An experiment file written for an environment: its spaces decide about trainer, wrappers and model.

What is written is read again by the ordinary loader, and its environment, wrappers and networks are built, before
anybody sees it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.config import describe, load_experiment, to_toml
from maze_kernel.config.description import inline_toml
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.config.origin import Origin
from maze_kernel.config.overrides import apply_overrides
from maze_kernel.config.problems import Problems
from maze_kernel.config.resolved import plain
from maze_kernel.errors import PluginError, RequestError
from maze_kernel.loader import Kernel
from maze_kernel.shown_command import shown_command
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.naming import environment_table, name_of_default, title_of
from maze_runtime.run.observation_sizes import LARGE, sizes_of

if TYPE_CHECKING:
    from maze_kernel.config.description import OptionRow
    from maze_kernel.contracts.env import StructuredSpaces

_N_EPOCHS = 50
_SHOWN = (
    "epoch_length",
    "patience",
    "n_rollout_steps",
    "batch_size",
    "lr",
    "gamma",
    "entropy_coef",
    "initial_buffer_size",
)
"""Options of trainers that are tried first; they are written out with their defaults."""
_OFF_POLICY = {"epoch_length": "1000", "initial_buffer_size": "1000"}
"""What is written instead for trainers that learn from a replay buffer, step by step of one environment."""
TO_FILL_IN = "FILL IN"
"""Stands where nobody but the user knows the value."""
_LARGEST = 10.0
"""Observations whose bounds lie farther out are looked at."""
_N_LOOKED_AT = 50
"""Random decisions that show how large they are."""


def draft_experiment(file: Path, env: str, trainer: str | None = None, overrides: Sequence[str] = ()) -> str:
    """The text of a commented experiment file.

    Args:
        file: what it will be called; nothing is written.
        env: name of an installed environment, an id, or an import path.
        trainer: name of one; None: the default one.
        overrides: `--set` items, of the environment's options alone.

    Raises:
        MazeError: the environment cannot be built, the trainer does not fit it, or an override is none of the
            environment's.
    """
    kernel = Kernel.installed()
    chosen = trainer or name_of_default(kernel.catalog, "trainer")
    table = _table(environment_table(kernel, env), overrides)
    minimal = {"name": title_of(file.stem), "env": table, "trainer": {"use": chosen, **_datasets(kernel, chosen)}}
    assembly = Assembly(experiment_from_mapping(minimal, kernel=kernel, origin=f"--env {env}"), kernel)

    def written(notes: Sequence[str]) -> str:
        check = shown_command("maze", "check", file)
        parts = [
            f"# {env} with {chosen}. What is written here are defaults and first guesses: change what you like;",
            f"# {check} says what is wrong with it, maze describe trainer {chosen} what else there is.",
            *_top(minimal["name"], assembly.spaces),
            *_lines(to_toml({"env": table})),
            *_vector(kernel, chosen),
            *_wrappers(kernel, assembly),
            *_model(kernel, assembly, notes),
            *_trainer(kernel, chosen),
            *_other_trainer(kernel, chosen, assembly.spaces),
            *_rest(),
        ]
        return "\n".join(parts) + "\n"

    return written(_notes_of_model(written(()), kernel))


def _table(table: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The table `[env]` with these options set."""
    for item in overrides:
        if not item.lstrip().startswith("env."):
            raise RequestError(
                f"--set {item} is no option of the environment",
                expected="env.NAME=VALUE: what its spaces may depend on",
                help="write all others into the file",
            )
    problems = Problems(origin=Origin(file="", python=True))
    changed: dict[str, Any] = apply_overrides({"env": table}, overrides, problems)["env"]
    problems.raise_if_any()
    return changed


def _top(name: Any, seen: StructuredSpaces) -> Iterator[str]:
    yield f'name = "{name}"'
    yield "seed = 0                      # all randomness of a run follows from it"
    yield ""
    for key in seen.policy_keys:
        whose = f" of policy key {key!r}" if len(seen.policy_keys) > 1 else ""
        for what, space in (("observation", seen.observation[key]), ("action", seen.action[key])):
            for head, leaf in space.spaces.items():
                yield f"# {what}{whose} {head}: {_space(leaf)}"


def _space(space: spaces.Space[Any]) -> str:
    text = re.sub(r"\s+", " ", str(space))
    return text if len(text) <= 90 else f"{text[:89]}…"


def _vector(kernel: Kernel, trainer: str) -> Iterator[str]:
    yield "[vector]"
    record: Any = kernel.catalog.find("trainer", trainer).component
    n_envs = record.n_envs or (1 if record.critic == "state-action" else 8)
    yield f"{f'n_envs = {n_envs}':<30}# environments that are stepped together"
    yield ""


def _wrappers(kernel: Kernel, assembly: Assembly) -> Iterator[str]:
    chosen = [
        selection
        for selection, transform in zip(assembly.transform_selections, assembly.transforms, strict=True)
        if transform.changes("observation") or transform.changes("reward")
    ]
    leaves = [leaf for observation in assembly.spaces.observation.values() for leaf in observation.spaces.values()]
    has_images = any(len(leaf.shape or ()) > 2 for leaf in leaves)
    for selection in chosen:
        options = {row.name: row.default for row in describe(kernel, "wrapper", selection.use).options}
        yield "[[wrappers]]                  # more is learnt with it; reports show the real rewards"
        yield f'use = "{selection.use}"'
        for name, value in plain(selection.options).items():
            if (name != "images" or has_images) and options.get(name) not in (None, inline_toml(value)):
                yield f"{name} = {inline_toml(value)}"
        yield ""
    images, wide = [], []
    for observation in assembly.spaces.observation.values():
        for name, space in observation.spaces.items():
            if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3:
                images.append((name, space.shape))
            elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and _is_wide(space):
                wide.append(name)
    if wide and not chosen and _has(kernel, "wrapper", "observation-normalization"):
        yield from _scaling(assembly)
    if _has(kernel, "wrapper", "resize-img"):
        for name, shape in dict.fromkeys(images):
            if shape[-1] in (1, 3) and max(shape[:2]) > 84:
                yield f"[[wrappers]]                  # {shape[0]} x {shape[1]} pixels would be slow"
                yield 'use = "resize-img"'
                yield f'observation = "{name}"'
                yield "target_size = [84, 84]"
                yield ""
    if not chosen and _has(kernel, "wrapper", "reward-scaling"):
        yield "# [[wrappers]]                # where rewards are far from 1; reports show the real ones"
        yield '# use = "reward-scaling"'
        yield "# scale = 0.1"
        yield ""


def _scaling(assembly: Assembly) -> Iterator[str]:
    """A wrapper that scales observations: written where their numbers are seen to be large, else as a comment."""
    sizes = sizes_of(assembly, _N_LOOKED_AT)
    large = [f"{name} has numbers of about {size:.3g}" for name, size in sizes.items() if size > LARGE]
    if large:
        yield f"[[wrappers]]                  # {', '.join(large)}; networks learn best from about 1"
        yield 'use = "observation-normalization"'
        yield 'statistics = "running"'
    else:
        yield "# [[wrappers]]                # where observations get far larger than 1; at random they did not"
        yield '# use = "observation-normalization"'
        yield '# statistics = "running"'
    yield ""


def _is_wide(space: spaces.Box) -> bool:
    bounds = np.maximum(np.abs(space.low), np.abs(space.high))
    return bool((bounds > _LARGEST).any())


def _model(kernel: Kernel, assembly: Assembly, notes: Sequence[str]) -> Iterator[str]:
    model = name_of_default(kernel.catalog, "model")
    chosen = assembly.experiment.model  # by a preset that the trainer names
    values = plain(chosen.options) if chosen is not None and chosen.use == model else {}
    rows = {row.name: row for row in describe(kernel, "model", model).options}
    for note in notes:
        yield f"# {note}"
    yield "[model]"
    yield f'use = "{model}"'
    for name in ("hidden_units", "non_lin"):
        if name in rows:
            default = inline_toml(values[name]) if name in values else rows[name].default
            yield _written(attrs.evolve(rows[name], default=default))
    yield ""


def _trainer(kernel: Kernel, trainer: str) -> Iterator[str]:
    rows = {row.name: row for row in describe(kernel, "trainer", trainer).options}
    instead = _OFF_POLICY if _is_off_policy(kernel, trainer) else {}
    yield "[trainer]"
    yield f'use = "{trainer}"'
    if "n_epochs" in rows:
        yield f"{f'n_epochs = {_N_EPOCHS}':<30}# epochs to train; 0: until patience or the user stops the run"
    for name, table in _datasets(kernel, trainer).items():
        yield f"# Instead of {TO_FILL_IN!r}: the folder of recorded episodes, from maze rollout RUN --record-to FOLDER"
        yield _written(attrs.evolve(rows[name], default=inline_toml(table)))
    for name in _SHOWN:
        if name in rows and rows[name].default not in ("required", "absent"):
            yield _written(attrs.evolve(rows[name], default=instead.get(name, rows[name].default)))
    yield ""


def _datasets(kernel: Kernel, trainer: str) -> dict[str, dict[str, str]]:
    """The datasets without which the trainer is not built: option to a table of the default one, to be filled in."""
    rows = describe(kernel, "trainer", trainer).options
    names = [row.name for row in rows if row.default == "required" and "use = dataset" in row.type]
    if not names:
        return {}
    dataset = name_of_default(kernel.catalog, "dataset")
    required = [row.name for row in describe(kernel, "dataset", dataset).options if row.default == "required"]
    return {name: dict.fromkeys(required, TO_FILL_IN) for name in names}


def _is_off_policy(kernel: Kernel, trainer: str) -> bool:
    record: Any = kernel.catalog.find("trainer", trainer).component
    return bool(record.critic == "state-action")


def _written(row: OptionRow) -> str:
    meaning = row.meaning[:1].lower() + row.meaning[1:].rstrip(".")
    first = re.split(r"(?<=\w)[.;:] ", meaning)[0]
    return f"{f'{row.name} = {row.default}':<29} # {first}"


def _other_trainer(kernel: Kernel, trainer: str, seen: StructuredSpaces) -> Iterator[str]:
    heads = [head for space in seen.action.values() for head in space.spaces.values()]
    continuous = all(isinstance(head, spaces.Box) for head in heads)
    if continuous and trainer != "sac" and _has(kernel, "trainer", "sac"):
        yield "# Continuous actions: where steps of the environment are slow, sac needs fewer of them (--trainer sac)."
        yield ""


def _rest() -> Iterator[str]:
    yield "[evaluation]"
    yield "n_episodes = 8                # the same ones every time; their mean reward chooses the best weights"
    yield ""
    yield "[checkpoint]"
    yield "every_epochs = 5"


def _lines(text: str) -> Iterator[str]:
    yield from text.rstrip().split("\n")
    yield ""


def _has(kernel: Kernel, kind: str, name: str) -> bool:
    try:
        kernel.catalog.find(kind, name)
    except PluginError:
        return False
    return True


def _notes_of_model(text: str, kernel: Kernel) -> Sequence[str]:
    """Load the text as the file of an experiment and build what it names; what the model says of the observations."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "experiment.toml"
        file.write_text(text, encoding="utf-8")
        model = Assembly(load_experiment(file, kernel=kernel), kernel).make_model()
    return getattr(model, "notes", ())
