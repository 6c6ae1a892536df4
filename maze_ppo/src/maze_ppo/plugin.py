"""What this distribution provides: the trainers `ppo` and `a2c`."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, TrainerComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_trainers() -> Iterable[TrainerComponent]:
    """Both trainers."""
    yield TrainerComponent(
        name="ppo",
        target="maze_ppo.ppo:make_ppo",
        options="maze_ppo.options:PPOOptions",
        recurrent=True,
        preset="maze-wrappers:scaled",
        default=True,
        collects_rollouts=True,
        summary="Proximal policy optimisation: clipped policy updates from on-policy rollouts.",
    )
    yield TrainerComponent(
        name="a2c",
        target="maze_ppo.a2c:make_a2c",
        options="maze_ppo.options:A2COptions",
        recurrent=True,
        n_envs=4,
        preset="maze-wrappers:scaled",
        collects_rollouts=True,
        summary="Advantage actor-critic: one synchronous gradient step a rollout, of 4 environments by default.",
    )


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """The settings of the examples."""
    for name, file, summary in (
        (
            "ppo-cartpole",
            "cartpole_ppo",
            "PPO as in examples/cartpole_ppo.toml: a few values, two actions, short episodes.",
        ),
        (
            "ppo-acrobot",
            "acrobot_ppo",
            "PPO as in examples/acrobot_ppo.toml: a reward at the end, episodes of some hundred steps.",
        ),
        (
            "ppo-lunarlander",
            "lunarlander_ppo",
            "PPO as in examples/lunarlander_ppo.toml: a few discrete actions, long episodes.",
        ),
        (
            "ppo-pendulum",
            "pendulum_ppo",
            "PPO as in examples/pendulum_ppo.toml: continuous actions, a reward each step.",
        ),
        ("a2c-cartpole", "cartpole_a2c", "A2C as in examples/cartpole_a2c.toml: short rollouts, many updates."),
    ):
        yield PresetComponent(name=name, target=f"maze_ppo.presets:{file}.toml", summary=summary)
