"""The kinds of work of kinds.py: what ours is told, who does the same, and what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

import kind_peers as peers
from interleaved import Contender
from kind_by_hand import by_hand
from kind_ours import ours

N_ENVS = 8
NATURE_CNN = {
    "use": "concat",
    "blocks": {"observation": {"use": "nature-cnn"}},
    "critic": {"share_embedding": True},
}
BFLOAT16 = {"precision": "bfloat16"}
PPO = {
    "use": "ppo",
    "n_rollout_steps": 128,
    "batch_size": 256,
    "n_optimization_epochs": 4,
    "lr": 2.5e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "max_grad_norm": 0.5,
}
OFF_POLICY = {"batch_size": 256, "lr": 3e-4, "initial_buffer_size": 1000}


@attrs.frozen(kw_only=True)
class Row:
    """A kind of work.

    Attributes:
        what: for the table.
        experiment: ours; the length of an epoch and `compile` are added.
        peer: who does the same, by name.
        make_peer: makes it, given the environment steps a round.
        steps: environment steps a round.
        wanted: throughput ÷ the peer's, eager and compiled; None: nothing is said.
        compiled: also measured with `compile = true`.
        decisions: ours is counted in decisions, of which a step has several.
        elsewhere: the peer has processes of its own, whose memory is not measured.
    """

    what: str
    experiment: Mapping[str, Any]
    peer: str = "Stable-Baselines3"
    make_peer: Callable[[int], Contender]
    steps: int = 8192
    wanted: tuple[float | None, float | None] = (None, None)
    compiled: bool = True
    decisions: bool = False
    elsewhere: bool = False

    @property
    def in_bfloat16(self) -> bool:
        """Whether our side multiplies in bfloat16."""
        return bool(self.experiment.get("model", {}).get("precision") == "bfloat16")


def _ppo(env: str | Mapping[str, Any], n_envs: int = N_ENVS, **tables: Any) -> dict[str, Any]:
    trainer = {**PPO, **tables.pop("trainer", {})}
    named = {"use": "gym", "id": env} if isinstance(env, str) else env
    alike = {"wrappers": []}  # the peer scales nothing by itself
    return {"env": named, "vector": {"n_envs": n_envs}, "trainer": trainer, **alike, **tables}


def _off_policy(use: str, env: str, **tables: Any) -> dict[str, Any]:
    model = {"use": "auto", "hidden_units": [256, 256], "non_lin": "relu"}
    trainer = {"use": use, **OFF_POLICY, **tables.pop("trainer", {})}
    return {"env": {"use": "gym", "id": env}, "vector": {"n_envs": 1}, "model": model, "trainer": trainer, **tables}


def _lstm(n_steps: int) -> Row:
    memory = {"use": "lstm", "hidden_size": 64, "stateful": True}
    trainer = {"n_rollout_steps": n_steps, "batch_size": n_steps * N_ENVS // 4}
    return Row(
        what=f"PPO, LSTM of 64, CartPole-v1, rollouts of {n_steps} steps",
        experiment=_ppo("CartPole-v1", model={"use": "auto", "recurrence": memory}, trainer=trainer),
        peer="sb3-contrib RecurrentPPO",
        make_peer=peers.recurrent(n_steps),
        steps=3072,
        wanted=(4, 6),
    )


def _structured(keys: tuple[str, ...], critic: str = "shared-state") -> dict[str, Any]:
    model = {"use": "auto", "critic": critic}
    return _ppo({"use": "structured:Walk", "keys": list(keys)}, model=model)


def _in_turn(critic: str, wanted: float) -> Row:
    return Row(
        what=f"PPO, two policy keys in turn, critic {critic}, decisions",
        experiment=_structured(("first", "second"), critic),
        peer="ours, one policy key",
        make_peer=lambda steps: ours(_structured(("0",)), steps),
        steps=10_240,
        wanted=(wanted, None),
        compiled=False,
        decisions=True,
    )


def _batch(n_envs: int) -> Row:
    env = {"use": "gym-vector", "entry": "own_batch:Hover"}
    options = {"batch_size": 32 * n_envs, "gamma": 0.99}
    return Row(
        what=f"PPO, a user's own batch of {n_envs} environments",
        experiment=_ppo(env, n_envs=n_envs, trainer=options),
        peer="a loop by hand",
        make_peer=lambda steps: by_hand(n_envs, steps),
        steps=256 * n_envs,
        wanted=(0.9, None),
    )


def _processes(n: int) -> dict[str, Any]:
    return _ppo("kind_environments:kinds/Slow-v0") | {
        "vector": {"n_envs": N_ENVS, "mode": "subprocess", "n_processes": n}
    }


def _pong(**tables: Any) -> dict[str, Any]:
    experiment = _ppo("ale_py:ALE/Pong-v5", trainer={"clip_range": 0.1, "entropy_coef": 0.01}, **tables)
    del experiment["wrappers"]  # those of the preset stay
    return {"preset": "atari", **experiment}


def _pong_batch(**model: Any) -> dict[str, Any]:
    frames = {"use": "gym-vector", "entry": "ale_py.vector_env:AtariVectorEnv", "kwargs": {"game": "pong"}}
    return _pong(model=NATURE_CNN | model) | {"preset": "atari-batch", "env": frames}


SCALING = [{"use": "observation-normalization", "statistics": "running"}, {"use": "return-normalization"}]
CHEETAH = {"batch_size": 64, "n_optimization_epochs": 10}


def _teams(peer: str, make_peer: Callable[[int], Contender], times: float, *, batch: bool = False) -> Row:
    """simple_spread beside a peer; ours plays mpe2's game or the same one in a batch of games."""
    one_by_one = {"use": "pettingzoo", "id": "mpe2.simple_spread_v3"}
    in_one = {"use": "pettingzoo-vector", "entry": "spread_batch:Spread"}
    env = {**(in_one if batch else one_by_one), "rewards": "team"}
    return Row(
        what="PPO, simple_spread, three agents, one policy" + (", ours with a batch of games" if batch else ""),
        experiment=_ppo(env, trainer={"n_rollout_steps": 384, "batch_size": 768}),
        peer=peer,
        make_peer=make_peer,
        steps=3072,
        wanted=(times, None),
    )


def _teams_beside_sb3(*, batch: bool = False) -> Row:
    return _teams("Stable-Baselines3 on SuperSuit", peers.simple_spread(N_ENVS), 3, batch=batch)


def _teams_beside_rllib(*, batch: bool = False) -> Row:
    return attrs.evolve(_teams("RLlib, one process", peers.rllib_spread(N_ENVS), 10, batch=batch), elsewhere=True)


DQN = {
    "env": {"use": "gym", "id": "CartPole-v1"},
    "vector": {"n_envs": 1, "mode": "sequential"},
    "model": {"use": "auto", "hidden_units": [64, 64], "non_lin": "relu"},
    "trainer": {
        "use": "dqn",
        "batch_size": 64,
        "lr": 3e-4,
        "initial_buffer_size": 1000,
        "n_rollout_steps": 4,
        "num_batches_per_iter": 1,
        "double": False,
        "n_step": 1,
        "epsilon": 0.05,
        "tau": 1.0,
        "target_update_interval": 250,
    },
}
ROWS: dict[str, Row] = {
    "cartpole": Row(
        what="PPO, CartPole-v1",
        experiment=_ppo("CartPole-v1"),
        make_peer=peers.ppo("CartPole-v1"),
        steps=20_480,
        wanted=(2.5, 5),
    ),
    "a2c": Row(
        what="A2C, CartPole-v1, 8 × 5",
        experiment=_ppo("CartPole-v1")
        | {"trainer": {"use": "a2c", "n_rollout_steps": 5, "lr": 7e-4, "gamma": 0.99, "max_grad_norm": 0.5}},
        make_peer=peers.a2c("CartPole-v1"),
        wanted=(2, 3),
    ),
    "masked": Row(
        what="PPO, Discrete(50) of which a third is allowed",
        experiment=_ppo("kind_environments:kinds/Masked-v0"),
        peer="sb3-contrib MaskablePPO",
        make_peer=peers.maskable("kind_environments:kinds/Masked-v0"),
        wanted=(3, 5),
    ),
    "dict": Row(
        what="PPO, Dict(vector, matrix, Discrete), MultiDiscrete([3, 4, 5])",
        experiment=_ppo("kind_environments:kinds/ManyKeys-v0"),
        make_peer=peers.ppo("kind_environments:kinds/ManyKeys-v0", policy="MultiInputPolicy"),
        wanted=(2, 3),
    ),
    "halfcheetah": Row(
        what="PPO, HalfCheetah-v5, minibatches of 64, 10 epochs",
        experiment=_ppo("HalfCheetah-v5", trainer=CHEETAH),
        make_peer=peers.ppo("HalfCheetah-v5", batch_size=64, n_epochs=10),
        steps=4096,
        wanted=(2, 3),
    ),
    "normalized": Row(
        what="the same, observations and returns normalised by running statistics",
        experiment=_ppo("HalfCheetah-v5", trainer=CHEETAH, wrappers=SCALING),
        make_peer=peers.ppo("HalfCheetah-v5", normalize=True, batch_size=64, n_epochs=10),
        steps=4096,
        wanted=(2, None),
    ),
    "lstm-32": _lstm(32),
    "lstm-128": _lstm(128),
    "pong": Row(
        what="PPO, Pong, 84 × 84 × 4, NatureCNN on both sides",
        experiment=_pong(model=NATURE_CNN),
        make_peer=peers.pong(),
        steps=1024,
        wanted=(1.2, 1.5),
    ),
    "pong-auto": Row(
        what="PPO, Pong, ours with the model `auto`",
        experiment=_pong(),
        make_peer=peers.pong(),
        steps=1024,
        wanted=(1.2, 1.5),
    ),
    "pong-batch": Row(
        what="PPO, Pong, ours with ale-py's native batch",
        experiment=_pong_batch(),
        make_peer=peers.pong(),
        steps=1024,
        wanted=(3, None),
    ),
    "pong-bfloat16": Row(
        what='PPO, Pong, NatureCNN on both sides, ours with `precision = "bfloat16"`',
        experiment=_pong(model=NATURE_CNN | BFLOAT16),
        make_peer=peers.pong(),
        steps=1024,
        wanted=(1.2, 1.5),
    ),
    "pong-batch-bfloat16": Row(
        what='PPO, Pong, ours with ale-py\'s native batch and `precision = "bfloat16"`',
        experiment=_pong_batch(**BFLOAT16),
        make_peer=peers.pong(),
        steps=1024,
        wanted=(3, None),
    ),
    "teams": _teams_beside_sb3(),
    "teams-batch": _teams_beside_sb3(batch=True),
    "teams-rllib": _teams_beside_rllib(),
    "teams-batch-rllib": _teams_beside_rllib(batch=True),
    "sac": Row(
        what="SAC, Pendulum-v1, 2 × 256",
        experiment=_off_policy("sac", "Pendulum-v1"),
        make_peer=peers.sac("Pendulum-v1"),
        steps=300,
        wanted=(1.4, 2),
    ),
    "sac-dict": Row(
        what="SAC, Dict observations",
        experiment=_off_policy("sac", "kind_environments:kinds/ManyKeysContinuous-v0"),
        make_peer=peers.sac("kind_environments:kinds/ManyKeysContinuous-v0", policy="MultiInputPolicy"),
        steps=300,
        wanted=(1.3, None),
    ),
    "sac-images": Row(
        what="SAC, 64 × 64 × 3, minibatches of 32",
        experiment=_off_policy(
            "sac", "kind_environments:kinds/Pictures-v0", trainer={"batch_size": 32, "initial_buffer_size": 200}
        ),
        make_peer=peers.sac("kind_environments:kinds/Pictures-v0", policy="CnnPolicy", batch_size=32, starts=200),
        steps=50,
        wanted=(1.3, None),
    ),
    "td3": Row(
        what="TD3, Pendulum-v1, 2 × 256",
        experiment=_off_policy("td3", "Pendulum-v1"),
        make_peer=peers.td3("Pendulum-v1"),
        steps=300,
        wanted=(1.5, None),
    ),
    "dqn": Row(
        what="DQN, CartPole-v1, 2 × 64, an update of 64 in four steps",
        experiment=DQN,
        make_peer=peers.dqn("CartPole-v1"),
        steps=4000,
        wanted=(1.5, None),
    ),
    "structured": _in_turn("shared-state", 0.9),
    "structured-delta": _in_turn("delta-state", 0.9),
    "structured-step": _in_turn("step-state", 0.8),
    "processes": Row(
        what="PPO, environments of a millisecond a step, two processes",
        experiment=_processes(2),
        peer="ours, one process",
        make_peer=lambda steps: ours(_processes(1), steps),
        steps=2048,
        wanted=(1.7, None),
        compiled=False,
    ),
    "batch-64": _batch(64),
    "batch-1024": _batch(1024),
}
