"""ES: ours against a plain loop (one member, one environment, one torch forward pass a step) and EvoTorch if installed.

CartPole-v1, population 64, one hidden layer of 64 tanh units, Adam, centred ranks, the most likely actions. Each round
is several updates from the same kind of policy: the weights are put back before it, so every round plays episodes of
similar length.
Start-up is excluded: every contender warms up once. One torch thread.

"bare ticks" does what cannot be left out: as many ticks of the same batch of environments as ours took just before,
each with a batched forward pass in NumPy and nothing else. It is credited with our steps, so it is our ceiling.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import gymnasium
import numpy as np
import torch
from torch import nn

from interleaved import Contender, compare
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_runtime.run.assembly import Assembly

POPULATION = 64
HIDDEN = 64
STDDEV = 0.1
STEP_SIZE = 0.05


class Ticking:
    """A batch that counts its ticks; everything else is the batch's own."""

    def __init__(self, vector_env: Any) -> None:
        self.vector_env = vector_env
        self.n_ticks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.vector_env, name)

    def step(self, actions: Any) -> Any:
        self.n_ticks += 1
        return self.vector_env.step(actions)


@attrs.define
class Work:
    """What ours did in its last round."""

    n_steps: int = 0
    n_ticks: int = 0


def ours(
    env: str,
    n_updates: int,
    *,
    trainer: Mapping[str, Any] | None = None,
    work: Work | None = None,
    **tables: Any,
) -> Contender:
    """A contender that makes `n_updates` updates with ours, and says in `work` what that took."""
    kernel = Kernel.installed()
    data = {
        "name": "benchmark",
        "env": {"use": "gym", "id": env},
        "wrappers": [],  # the peers scale nothing by themselves
        "vector": {"n_envs": POPULATION // 2},
        "model": {"use": "auto", "hidden_units": [HIDDEN]},
        "trainer": {
            "use": "es",
            "n_rollouts_per_update": POPULATION,
            "noise_stddev": STDDEV,
            "optimizer": {"use": "adam", "step_size": STEP_SIZE},
            "noise": {"use": "seeded"},
            **(trainer or {}),
        },
        **tables,
    }
    assembly = Assembly(experiment_from_mapping(data, kernel=kernel), kernel)
    context, batches = assembly.trainer_context(), []

    def make_vector_env() -> Ticking:
        batches.append(Ticking(context.make_vector_env()))
        return batches[-1]

    counted = context if "workers" in tables else attrs.evolve(context, make_vector_env=make_vector_env)
    trainer_object = assembly.make_trainer(counted)
    start_weights = {name: tensor.clone() for name, tensor in trainer_object.model.state_dict().items()}

    def run() -> float:
        trainer_object.model.load_state_dict(start_weights)
        trainer_object.start_segment(0)
        n_ticks = sum(batch.n_ticks for batch in batches)
        before, start = trainer_object.env_steps, time.perf_counter()
        for _ in range(n_updates):
            trainer_object.train_epoch()
        seconds, n_steps = time.perf_counter() - start, trainer_object.env_steps - before
        if work is not None:
            work.n_steps, work.n_ticks = n_steps, sum(batch.n_ticks for batch in batches) - n_ticks
        return float(n_steps / seconds)

    run()
    return run


def bare_ticks(env: str, n_envs: int, work: Work) -> Contender:
    """A contender that makes the ticks of `work` with the environment's own batch and a bare forward pass."""
    batch = gymnasium.make_vec(env, n_envs, vectorization_mode="vector_entry_point").unwrapped
    rng = np.random.default_rng(0)
    n_inputs, n_outputs = batch.single_observation_space.shape[0], batch.single_action_space.n
    first = rng.normal(size=(n_envs, n_inputs, HIDDEN)).astype(np.float32)
    second = rng.normal(size=(n_envs, HIDDEN, n_outputs)).astype(np.float32)

    def run() -> float:
        start = time.perf_counter()
        observation, _ = batch.reset(seed=0)
        for _ in range(work.n_ticks):
            hidden = np.tanh(np.matmul(observation[:, None], first))
            observation, *_ = batch.step(np.matmul(hidden, second)[:, 0].argmax(-1))
        return work.n_steps / (time.perf_counter() - start)

    return run


def plain_loop(env: str, n_updates: int) -> Contender:
    """A contender that does the same in the obvious way."""
    environment = gymnasium.make(env)
    n_inputs = environment.observation_space.shape[0]
    n_outputs = environment.action_space.n
    network = nn.Sequential(nn.Linear(n_inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, n_outputs))
    first = nn.utils.parameters_to_vector(network.parameters()).detach().clone()

    def episode(weights: torch.Tensor, seed: int) -> tuple[float, int]:
        nn.utils.vector_to_parameters(weights, network.parameters())
        observation, _ = environment.reset(seed=seed)
        total, n_steps, ended = 0.0, 0, False
        while not ended:
            logits = network(torch.from_numpy(observation))
            action = int(logits.argmax(-1))
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, n_steps, ended = total + float(reward), n_steps + 1, terminated or truncated
        return total, n_steps

    @torch.inference_mode()
    def run() -> float:
        center = first.clone().requires_grad_(False)
        optimizer = torch.optim.Adam([center], lr=STEP_SIZE)
        n_steps, start = 0, time.perf_counter()
        for update in range(n_updates):
            noise = torch.randn(POPULATION // 2, len(center))
            returns = np.empty((2, len(noise)))
            for half, sign in enumerate((1.0, -1.0)):
                for i, epsilon in enumerate(noise):
                    returns[half, i], length = episode(center + sign * STDDEV * epsilon, 1000 * update + i)
                    n_steps += length
            ranks = returns.reshape(-1).argsort().argsort().reshape(returns.shape) / (returns.size - 1) - 0.5
            center.grad = -torch.from_numpy(ranks[0] - ranks[1]).float() @ noise / (POPULATION * STDDEV)
            optimizer.step()
        return n_steps / (time.perf_counter() - start)

    return run


def evotorch(env: str, n_updates: int) -> Contender:
    """A contender that makes `n_updates` updates with EvoTorch's PGPE, which has the same estimator."""
    from evotorch.algorithms import PGPE
    from evotorch.neuroevolution import GymNE

    layers = f"Linear(obs_length, {HIDDEN}) >> Tanh() >> Linear({HIDDEN}, act_length)"

    def run(n_updates: int = n_updates) -> float:
        problem = GymNE(env, layers, observation_normalization=False, num_actors=0)
        searcher = PGPE(
            problem,
            popsize=POPULATION,
            center_learning_rate=STEP_SIZE,
            stdev_learning_rate=0.0,
            stdev_init=STDDEV,
            optimizer="adam",
            ranking_method="centered",
        )
        start = time.perf_counter()
        for _ in range(n_updates):
            searcher.step()
        return float(problem.status["total_interaction_count"] / (time.perf_counter() - start))

    run(1)
    return run


def contenders(env: str, n_updates: int) -> dict[str, Callable[[], Contender]]:
    """What makes each contender, by name; the first one is the yardstick."""
    apart, together = Work(), Work()
    both = {"trainer": {"halves_together": True}, "vector": {"n_envs": POPULATION}, "work": together}
    table: dict[str, Callable[[], Contender]] = {
        "evotorch": lambda: evotorch(env, n_updates),
        "plain loop": lambda: plain_loop(env, n_updates),
        "maze": lambda: ours(env, n_updates, work=apart),
        "bare ticks": lambda: bare_ticks(env, POPULATION // 2, apart),
        "maze, halves together": lambda: ours(env, n_updates, **both),
        "bare ticks, halves together": lambda: bare_ticks(env, POPULATION, together),
        "maze sequential envs": lambda: ours(env, n_updates, vector={"n_envs": 8, "mode": "sequential"}),
        "maze, 2 processes": lambda: ours(env, n_updates, workers={"use": "subprocess", "count": 2}),
    }
    if importlib.util.find_spec("evotorch") is None:
        del table["evotorch"]
    return table


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--env", default="CartPole-v1", help="an environment with a vector observation, discrete actions"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=10, help="updates a round")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contenders; the first is the yardstick")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"# {arguments.env}: population {POPULATION}, one hidden layer of {HIDDEN}, {arguments.updates} updates a round"
    )
    table = contenders(arguments.env, arguments.updates)
    compare({name: table[name]() for name in arguments.only or table}, arguments.rounds)


if __name__ == "__main__":
    main()
