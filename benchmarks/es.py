"""ES: ours against a plain loop (one member, one environment, one torch forward pass a step) and EvoTorch if installed.

CartPole-v1, population 64, one hidden layer of 64 tanh units, Adam, centred ranks. Each round is several updates
from the same kind of policy: the weights are put back before it, so every round plays episodes of similar length.
Start-up is excluded: every contender warms up once. One torch thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from interleaved import Contender, compare
from maze_kernel.config import experiment_from_mapping
from maze_kernel.loader import Kernel
from maze_kernel.run.assembly import Assembly

POPULATION = 64
HIDDEN = 64
STDDEV = 0.1
STEP_SIZE = 0.05


def ours(env: str, n_updates: int, *, trainer: Mapping[str, Any] | None = None, **tables: Any) -> Contender:
    """A contender that makes `n_updates` updates with ours."""
    kernel = Kernel.installed()
    data = {
        "name": "benchmark",
        "env": {"use": "gym", "id": env},
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
    trainer_object = assembly.make_trainer(assembly.trainer_context())
    start_weights = {name: tensor.clone() for name, tensor in trainer_object.model.state_dict().items()}

    def run() -> float:
        trainer_object.model.load_state_dict(start_weights)
        trainer_object.start_segment(0)
        before, start = trainer_object.env_steps, time.perf_counter()
        for _ in range(n_updates):
            trainer_object.train_epoch()
        return float((trainer_object.env_steps - before) / (time.perf_counter() - start))

    run()
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
            action = int(torch.multinomial(logits.softmax(-1), 1))
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

    def run() -> float:
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

    run()
    return run


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--env", default="CartPole-v1", help="an environment with a vector observation, discrete actions"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=10, help="updates a round")
    parser.add_argument("--processes", action="store_true", help="add ours on two worker processes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"# {arguments.env}: population {POPULATION}, one hidden layer of {HIDDEN}, {arguments.updates} updates a round"
    )
    table: dict[str, Contender] = {}
    if importlib.util.find_spec("evotorch") is not None:
        table["evotorch"] = evotorch(arguments.env, arguments.updates)
    table["plain loop"] = plain_loop(arguments.env, arguments.updates)
    table["maze"] = ours(arguments.env, arguments.updates)
    table["maze, modes"] = ours(arguments.env, arguments.updates, trainer={"deterministic": True})
    table["maze sequential envs"] = ours(arguments.env, arguments.updates, vector={"n_envs": 8, "mode": "sequential"})
    if arguments.processes:
        pool = {"use": "subprocess", "count": 2}
        table["maze 2 processes"] = ours(arguments.env, arguments.updates, workers=pool)
    compare(table, arguments.rounds)


if __name__ == "__main__":
    main()
