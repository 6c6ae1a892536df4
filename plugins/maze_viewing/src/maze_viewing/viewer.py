"""From a recording to what a viewer shows: finds the environment, draws, and builds the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from maze_kernel.errors import MazeError, RequestError
from maze_kernel.validators import at_least
from maze_runtime.playing.players import with_drawing
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.directory import open_run
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.writer import RecordingManifest, read_manifest
from maze_viewing.episodes import ShownEpisode, shown_episode
from maze_viewing.frames import Frames, core_env_of, drawn_frames, renderer_arguments, replayed_frames
from maze_viewing.page import build_page

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_runtime.env.renderer import Renderer
    from maze_runtime.run.env_factory import EnvFactory


_FOR_DRAWING = ("name", "env", "wrappers", "trainer")
"""The parts of an experiment that are built again; a model given by its import path does not stand in the way."""


@attrs.frozen(kw_only=True)
class ViewOptions:
    """What of a recording is shown."""

    n_episodes: int = attrs.field(default=3, validator=at_least(1))
    """At most so many episodes, the first ones."""
    seeds: tuple[int, ...] = ()
    """Only the episodes with these seeds; empty: any."""
    max_decisions: int = attrs.field(default=400, validator=at_least(0))
    """Draw at most so many decisions of an episode; the others are shown without a picture."""
    arguments: Mapping[str, str] = attrs.field(factory=dict)
    """Arguments of the environment's renderer, by name, as text."""


def view_page(
    source: Path | str,
    options: ViewOptions | None = None,
    *,
    experiment: LoadedExperiment | None = None,
    report: Callable[[str], None] = lambda _text: None,
) -> str:
    """The page of a recording.

    Args:
        source: see `TrajectoryDataset.open`; of a run directory with several recordings the newest one.
        options: what is shown.
        experiment: builds the environment; None: the one the recording describes, from installed plugins only.
        report: told of the progress.

    Raises:
        RequestError: there is no such recording or episode, or the renderer has no such argument.
    """
    options = options or ViewOptions()
    dataset = _chosen(TrajectoryDataset.open(source), options)
    manifest = _described(dataset.files[0].parent)
    scene = _Scene(manifest, experiment, options)
    episodes = []
    for index in range(len(dataset)):
        report(f"episode {index + 1} of {len(dataset)}")
        episodes.append(scene.show(dataset, index))
    about = {
        "environment": _env_name(manifest),
        "played by": dataset[0].info.policy or manifest.policy,
        "recorded": manifest.created.replace("T", " ").replace("Z", " UTC"),
    }
    name = (manifest.experiment or {}).get("name")
    return build_page(str(name or dataset.files[0].parent.name), about, episodes)


class _Scene:
    """The environment of a recording, as far as it can be had, for drawing."""

    def __init__(self, manifest: RecordingManifest, experiment: LoadedExperiment | None, options: ViewOptions) -> None:
        self._options = options
        self._note = ""
        self._core_env: Any = None
        self._renderer: Renderer | None = None
        self._replay: EnvFactory | None = None
        try:
            self._find(experiment or _stored_experiment(manifest))
        except MazeError as error:
            self._note = f"no pictures: {error.what}" + (f" ({error.help})" if error.help else "")
        self._arguments: dict[str, Any] = {}
        if self._renderer is not None:
            self._arguments = renderer_arguments(self._renderer, options.arguments)
        elif options.arguments:
            raise RequestError("the environment has no renderer that takes arguments")

    def show(self, dataset: TrajectoryDataset, index: int) -> ShownEpisode:
        """One episode."""
        episode = dataset[index]
        maze_episode = dataset.maze_episode(index, self._core_env)
        frames = Frames(note=self._note)
        if maze_episode is not None and self._renderer is not None:
            frames = drawn_frames(maze_episode, self._renderer, self._options.max_decisions, self._arguments)
        elif self._replay is not None:
            frames = replayed_frames(self._replay, episode, self._options.max_decisions)
        if frames.pictures and len(episode) > self._options.max_decisions and not frames.note:
            frames = attrs.evolve(frames, note=f"pictures of the first {self._options.max_decisions} decisions only")
        return shown_episode(episode, maze_episode, frames)

    def _find(self, loaded: LoadedExperiment) -> None:
        factory = Assembly(loaded, loaded.kernel).env_factory(training=False, writes_files=False)
        env = factory()
        try:
            self._core_env = core_env_of(env)
            self._renderer = None if self._core_env is None else self._core_env.get_renderer()
        finally:
            env.close()
        if self._core_env is not None and self._renderer is None:
            self._note = "no pictures: the environment has no renderer"
        elif self._renderer is None:
            drawing = with_drawing(loaded, loaded.kernel, "rgb_array")
            self._replay = Assembly(drawing, loaded.kernel).env_factory(training=False, writes_files=False)


def _described(folder: Path) -> RecordingManifest:
    """What a recording says about itself; one that a wrapper made does not say of which experiment: its run does."""
    manifest = read_manifest(folder)
    run = next((parent for parent in folder.absolute().parents if (parent / "run.json").is_file()), None)
    if manifest.experiment is not None or run is None:
        return manifest
    return attrs.evolve(manifest, experiment=open_run(run).resolved)


def _chosen(dataset: TrajectoryDataset, options: ViewOptions) -> TrajectoryDataset:
    newest = max({file.parent for file in dataset.files}, key=lambda folder: (read_manifest(folder).created, folder))
    indices = [index for index, file in enumerate(dataset.files) if file.parent == newest]
    if options.seeds:
        seeds = [info.seed for info in dataset.subset(indices).infos()]
        if missing := [seed for seed in options.seeds if seed not in seeds]:
            raise RequestError(
                f"no episode in {newest} was recorded with seed {missing[0]}",
                expected=", ".join(map(str, seeds[:20])) + (" …" if len(seeds) > 20 else ""),
            )
        indices = [index for index, seed in zip(indices, seeds, strict=True) if seed in options.seeds]
    return dataset.subset(indices[: max(options.n_episodes, len(options.seeds))])


def _stored_experiment(manifest: RecordingManifest) -> LoadedExperiment:
    from maze_kernel.config.load import experiment_from_mapping

    if manifest.experiment is None:
        raise RequestError("the recording does not say which experiment it is of", help="give it: --experiment FILE")
    try:
        needed = {name: manifest.experiment[name] for name in _FOR_DRAWING if name in manifest.experiment}
        return experiment_from_mapping(needed, kernel=None, origin="the recorded experiment", import_paths=False)
    except RequestError as error:
        raise RequestError(
            "the recorded experiment cannot be built from the installed plugins", help="give it: --experiment FILE"
        ) from error


def _env_name(manifest: RecordingManifest) -> str:
    env = (manifest.experiment or {}).get("env")
    if not isinstance(env, Mapping):
        return ""
    parts = (env.get("use"), env.get("id"), env.get("version"))
    return " ".join(part for part in parts if isinstance(part, str))
