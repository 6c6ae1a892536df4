"""Trains one job of `suite.py` and writes its evaluations as JSON lines: `python suite_job.py JOB FILE`.

Ours is trained through `RunContext`, the peer through its own classes; under `--settings default` nothing is set but
environment, steps, seed, and how often is measured. Both are evaluated alike: the same whole episodes for the same seed
of a job, by deterministic actions and the environment's own rewards.
"""

from __future__ import annotations

import importlib
import json
import math
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import gymnasium
import torch

from maze_runtime.env.seeding import SeedTree
from suite_envs import SameEpisode
from suite_tasks import Job, Task, read_candidates, read_tasks

EXAMPLES = Path(__file__).parents[1] / "examples"
N_EVALUATIONS = 5
REWARD = "BaseEnvEvents/reward/mean"

Watch = Callable[[int, float], None]
"""Takes environment steps and the mean return of an evaluation."""


def train(job: Job, task: Task, target: Path) -> None:
    """Write a line about the job, one an evaluation, and one at the end.

    Ours keeps its run directory beside the file until it is done: where a job was cut, the next call goes on from its
    last checkpoint, behind the lines that are there.
    """
    torch.set_num_threads(1)
    run_dir = target.with_suffix(".run")
    cut = _lines_of(target) if any(run_dir.glob("checkpoints/*")) else []
    if not cut:
        shutil.rmtree(run_dir, ignore_errors=True)
    seen = {line["env_steps"] for line in cut if "score" in line}
    start = time.perf_counter() - max((line.get("seconds", 0.0) for line in cut), default=0.0)

    with target.open("a" if cut else "w", encoding="utf-8") as file:

        def write(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        def watch(env_steps: int, score: float) -> None:
            if env_steps not in seen:
                write(env_steps=env_steps, score=round(score, 4), seconds=round(time.perf_counter() - start, 2))

        if not cut:
            write(**attrs.asdict(job), versions=_versions(job.library))
        env_steps = ours(job, task, watch, run_dir) if job.library == "maze" else peers(job, task, watch)
        write(outcome="done", env_steps=env_steps, seconds=round(time.perf_counter() - start, 2))
    shutil.rmtree(run_dir, ignore_errors=True)


def _lines_of(path: Path) -> list[dict[str, Any]]:
    """What a job wrote before it was cut, without a last line that is half there."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def _versions(library: str) -> dict[str, str]:
    packages = {"maze": ("maze-runtime",), "sb3": ("stable-baselines3", "sb3-contrib")}[library]
    return {name: version(name) for name in (*packages, "gymnasium", "torch")}


def ours(job: Job, task: Task, watch: Watch, run_dir: Path) -> int:
    """Train ours, or go on in a run directory that is there; returns the environment steps that were taken."""
    from maze_suite import RunContext

    def see(run: Any) -> None:
        score = run.value(REWARD)
        if score is not None:
            watch(run.env_steps, score)

    experiment: Any
    tuned = task.tuned[job.algorithm] if job.settings == "tuned" else {}
    if run_dir.exists():
        context = RunContext.load(run_dir, **_components_from_python(task, tuned), silent=True)
        return int(context.train(callbacks=[see]).env_steps)
    if tuned:
        experiment = EXAMPLES / tuned["file"]
    else:
        experiment = {"name": "suite", "env": dict(task.env), "trainer": {"use": job.algorithm.lower()}}
        experiment |= {} if task.preset is None else {"preset": task.preset}
    overrides: dict[str, Any] = {
        "seed": job.seed,
        "loggers": [{"use": "csv"}],
        "trainer.max_env_steps": job.steps,
        "trainer.patience": 0,
        "evaluation.n_episodes": task.n_episodes,
        **tuned.get("overrides", {}),
    }
    if (candidate := read_candidates().get(job.settings)) is not None:
        own = dict(candidate.overrides)
        if not candidate.scaled and task.preset is None:
            own.setdefault("wrappers", [])
        overrides |= {f"trainer.{name}": value for name, value in own.pop("trainer", {}).items()} | own
    config = RunContext(experiment=experiment, overrides=overrides, silent=True).config
    if config["trainer"].get("n_epochs"):
        overrides["trainer.n_epochs"] = 0
    if job.algorithm == "PPO" and not tuned:
        overrides["trainer.max_env_steps"] = _whole_rollouts(config, job.steps)
    # Checkpoints stay where the defaults have them, for training episodes begin anew at each.
    overrides["evaluation.every_epochs"] = _epochs_between(config, job)
    context = RunContext(experiment=experiment, overrides=overrides, run_dir=run_dir, silent=True)
    return int(context.train(callbacks=[see]).env_steps)


def _components_from_python(task: Task, tuned: Mapping[str, Any]) -> dict[str, Any]:
    """Environment and model of modules beside an example or this one: a run directory imports none by itself."""
    if not tuned:
        return {"env": dict(task.env)} if ":" in task.env["use"] else {}
    tables = tomllib.loads((EXAMPLES / tuned["file"]).read_text(encoding="utf-8"))
    if ":" not in tables.get("env", {}).get("use", ""):
        return {}
    sys.path.append(str(EXAMPLES))
    return {name: tables[name] for name in ("env", "model")}


def _whole_rollouts(config: Mapping[str, Any], steps: int) -> int:
    """The budget without a last rollout that would pass it.

    The peer, evaluated at the budget, has not learnt from that one either.
    """
    rollout = config["trainer"]["n_rollout_steps"] * config["vector"]["n_envs"]
    return max(1, steps // rollout) * rollout


def _epochs_between(config: Mapping[str, Any], job: Job) -> int:
    """Epochs from one evaluation to the next: several for one of the peer's, so that the last one comes late."""
    trainer = config["trainer"]
    if job.algorithm == "ES":  # an epoch has as many steps as its episodes
        return 2
    n_envs = trainer["actors_batch_size"] if job.algorithm == "IMPALA" else config["vector"]["n_envs"]
    steps = trainer["epoch_length"] * trainer["n_rollout_steps"] * trainer.get("rollouts_per_iteration", 1) * n_envs
    return max(1, job.steps // (5 * N_EVALUATIONS * steps))


def peers(job: Job, task: Task, watch: Watch) -> int:
    """Train the peer's; returns the environment steps that were taken."""
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback

    evaluate = _peer_evaluation(task, job.seed)

    class Evaluations(BaseCallback):
        """Evaluates every so many steps, and ends the training after the last of them."""

        due: float = max(1, job.steps // N_EVALUATIONS)
        every = due

        def _on_step(self) -> bool:
            if self.num_timesteps >= self.due:
                watch(self.num_timesteps, evaluate(self.model))
                # ARS goes on to the end of its iteration, whatever this returns
                self.due = min(self.due + self.every, job.steps) if self.due < job.steps else math.inf
            return self.num_timesteps < job.steps

    contrib = {"ES": "ARS", **({"PPO": "MaskablePPO"} if task.is_masked else {})}
    name = contrib.get(job.algorithm, job.algorithm)
    library = importlib.import_module("sb3_contrib") if job.algorithm in contrib else stable_baselines3
    model = getattr(library, name)(task.policy, _peer_envs(task, job.seed), seed=job.seed, device="cpu")
    model.learn(job.steps, callback=Evaluations())
    return int(model.num_timesteps)


def _peer_evaluation(task: Task, seed: int) -> Callable[[Any], float]:
    """Plays the episodes that ours plays with this seed, one in each of as many environments."""
    if task.is_masked:
        from sb3_contrib.common.maskable.evaluation import evaluate_policy
    else:
        from stable_baselines3.common.evaluation import evaluate_policy
    envs = _peer_envs(task, seed, episodes=SeedTree(seed).seeds(task.n_episodes, "evaluation", "episodes"))

    def evaluate(model: Any) -> float:
        mean, _ = evaluate_policy(model, envs, n_eval_episodes=task.n_episodes, deterministic=True)
        return float(mean)

    return evaluate


def _peer_envs(task: Task, seed: int, episodes: Sequence[int] | None = None) -> Any:
    """Environments as the peer's guide has them, each with a monitor that sees the environment's own rewards.

    Args:
        task: what is played.
        seed: of the training.
        episodes: seeds of evaluations, an environment each; None: one environment to train on.
    """
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    def build(episode: int | None) -> Any:
        env: Any = _make(task, **({"frameskip": 1} if task.is_atari else {}))
        env = Monitor(env if episode is None else SameEpisode(env, episode))
        if not task.is_atari:
            return env
        is_training = episode is None
        return AtariWrapper(env, terminal_on_life_loss=is_training, clip_reward=is_training)

    envs: Any = DummyVecEnv([partial(build, episode) for episode in episodes or [None]])
    envs.seed(seed)
    return VecFrameStack(envs, 4) if task.is_atari else envs


def _make(task: Task, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """One environment; its `id` is registered, or names a class of a module beside this one."""
    name = task.env["id"]
    module, _, attribute = name.partition(":")
    is_class = hasattr(importlib.import_module(module), attribute) if attribute else False
    env: gymnasium.Env[Any, Any]
    env = _named(name)() if is_class else gymnasium.make(name, **{**task.env.get("kwargs", {}), **kwargs})
    return env if task.wrapper is None else _named(task.wrapper)(env)


def _named(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main(job: str, target: str) -> None:
    """Train the job that a JSON object describes, and write its file."""
    own = Job(**json.loads(job))
    train(own, read_tasks()[own.task], Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
