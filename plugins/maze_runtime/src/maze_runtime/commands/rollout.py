"""`maze rollout`: episodes of a trained policy or of another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from maze_kernel.cli.experiments import Overrides
from maze_kernel.errors import EXIT_DONE, EXIT_FAILED, RequestError
from maze_runtime.commands.policies import select_policy, split_overrides
from maze_runtime.commands.rollout_report import print_failures, print_result
from maze_runtime.commands.runs import new_folder, newest_run, what_to_play

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_runtime.playing.roll_out import RolloutOptions, RolloutResult
    from maze_runtime.rollout.episodes import EpisodeResult
    from maze_runtime.training.checkpoint import Checkpoint


def rollout(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FILE|ENV", help="A run directory, an experiment file, or an environment's name or id."
        ),
    ],
    overrides: Overrides = None,
    episodes: Annotated[int | None, typer.Option("--episodes", min=1, help="Episodes to play; else 10.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="A policy by name or import path, instead of the trained one.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic/--stochastic", help="Take the mode of each distribution, or sample.")
    ] = True,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The seeds of all episodes follow from it; else from 0.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="best, last or epoch-N of a run; else best.")
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Read the experiment here instead of from the run.")
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", min=1, help="Cut longer episodes; counts steps, or rounds of opponents."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Workers that play; else as the experiment says.")
    ] = None,
    render: Annotated[bool, typer.Option("--render", help="Show the episodes in a window.")] = False,
    video: Annotated[Path | None, typer.Option("--video", metavar="DIR", help="Write a film of each episode.")] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record the episodes into RUN/trajectories/TIME, or trajectories/NAME/TIME."),
    ] = False,
    record_to: Annotated[
        Path | None, typer.Option("--record-to", metavar="DIR", help="Record the episodes into this new folder.")
    ] = None,
    replayed: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="DIR", help="Take the actions of these recorded episodes again, seed by seed."
        ),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Write every event as CSV into RUN/events/TIME, or events/NAME/TIME.")
    ] = False,
    evaluator: Annotated[
        str | None,
        typer.Option(
            "--evaluator",
            metavar="NAME",
            help="Play in the environment of an evaluator, or of [evaluation].",
        ),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time goes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> int:
    """Play episodes with a trained policy or another one."""
    from maze_runtime.playing.roll_out import RolloutOptions

    _refuse_unread(replayed, **{"--policy": policy, "--checkpoint": checkpoint, "--episodes": episodes, "--seed": seed})
    of_experiment, of_policy = split_overrides(tuple(overrides or ()))
    named = "replay" if replayed else policy
    loaded, kernel, weights = what_to_play(source, experiment, named, checkpoint or "best", of_experiment)
    _refuse_checkpoint(checkpoint, weights, source)
    name = loaded.experiment.name
    options = RolloutOptions(
        n_episodes=episodes or 10,
        seed=seed or 0,
        deterministic=deterministic,
        max_steps=max_steps,
        n_workers=workers,
        render=render,
        video_dir=video,
        record_dir=new_folder(source, "trajectories", name) if record and record_to is None else record_to,
        events_dir=new_folder(source, "events", name) if events else None,
        profile=profile,
        evaluator=evaluator,
    )
    run_dir = newest_run(source) if source.is_dir() else None
    player = _Player(policy=policy, of_policy=of_policy, weights=weights, replayed=replayed, run_dir=run_dir)
    began_in = Path().absolute()
    result = player.play(loaded, kernel, options)
    print_result(result, str(player), options, as_json=as_json, began_in=began_in)
    print_failures(result, loaded.path, began_in)
    return EXIT_FAILED if result.summary["n_failed"] else EXIT_DONE


def _refuse_unread(replayed: Path | None, **given: Any) -> None:
    """Options that would change nothing beside a recording, which has all of them."""
    named = [name for name, value in given.items() if value is not None]
    if replayed is not None and named:
        raise RequestError(
            f"--replay and {named[0]} exclude each other",
            expected="all episodes of the recording, with their seeds and actions",
            help="leave one out; the file of an episode plays that one",
        )


def _refuse_checkpoint(checkpoint: str | None, weights: Checkpoint | None, source: Path) -> None:
    if checkpoint is not None and weights is None:
        raise RequestError(
            "--checkpoint names weights of a run, and no trained policy plays",
            received=f"--checkpoint {checkpoint}",
            help="leave it out" if source.is_dir() else "name the run directory instead of the experiment",
        )


@attrs.frozen(kw_only=True)
class _Player:
    """Who plays: a recording that is replayed, a policy by its name with options, or trained weights."""

    policy: str | None
    of_policy: tuple[str, ...]
    weights: Checkpoint | None
    replayed: Path | None
    run_dir: Path | None

    def play(self, loaded: LoadedExperiment, kernel: Kernel, options: RolloutOptions) -> RolloutResult:
        from maze_runtime.playing.roll_out import replay, roll_out

        if self.replayed is not None:
            return replay(loaded, kernel, self.replayed, options, run_dir=self.run_dir)
        if self.of_policy and self.weights is not None:
            received = f"--set {self.of_policy[0]}"
            raise RequestError("a trained policy has no options", received=received, help="name --policy")
        return roll_out(
            loaded,
            kernel,
            options,
            checkpoint=self.weights,
            policy=select_policy(kernel, self.policy or "random", self.of_policy),
            run_dir=self.run_dir,
            on_result=_report_progress(options.n_episodes),
            report=lambda text: print(text, file=sys.stderr),
        )

    def __str__(self) -> str:
        if self.replayed is not None:
            return f"the recording {self.replayed}"
        return self.policy or ("random" if self.weights is None else f"{self.run_dir} at epoch {self.weights.epoch}")


def _report_progress(n_episodes: int) -> Any:
    """A counter on stderr while episodes are played, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda _result: None
    done = 0

    def report(_result: EpisodeResult) -> None:
        nonlocal done
        done += 1
        print(f"\repisode {done} of {n_episodes}", end="" if done < n_episodes else "\r\033[K", file=sys.stderr)

    return report
