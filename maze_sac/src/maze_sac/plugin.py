"""What this distribution provides: the trainer `sac`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """The trainer."""
    yield TrainerComponent(
        name="sac",
        target="maze_sac.trainer:SACTrainer",
        options="maze_sac.options:SACOptions",
        critic="state-action",
        collects_rollouts=True,
        n_envs=1,
        preset="maze-perception:dense-128",
        summary="Soft actor-critic: off-policy, for continuous, discrete and mixed actions; 1 environment by default.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """The settings of the examples."""
    for name, file, summary in (
        ("sac-cartpole", "cartpole_sac", "Discrete SAC as in examples/cartpole_sac.toml."),
        ("sac-pendulum", "pendulum_sac", "SAC as in examples/pendulum_sac.toml: small networks, one update a step."),
        ("sac-halfcheetah", "halfcheetah_sac", "SAC as in examples/halfcheetah_sac.toml: small networks, for speed."),
    ):
        yield PresetComponent(name=name, target=f"maze_sac.presets:{file}.toml", summary=summary)
