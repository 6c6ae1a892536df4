"""The environments that evaluations play: those of the experiment, or of an evaluator's own.

An evaluator with an environment or wrappers of its own plays another experiment that differs in these alone. Statistics
of its wrappers, such as running means, are those of training: each wrapper takes them from its counterpart there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from gymnasium import spaces

from maze_kernel.catalog import nearest
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.errors import Location, MazeError, RequestError
from maze_runtime.run.assembly import Assembly
from maze_runtime.run.placing import placed
from maze_runtime.run.wrapper_lists import load_transforms

if TYPE_CHECKING:
    from maze_kernel.config.experiment import EvaluatorOptions, Experiment, LoadedExperiment
    from maze_kernel.contracts.workers import WorkerPool
    from maze_kernel.selection import Selection

MAIN = "evaluation"
"""The name of what the table `[evaluation]` itself says."""


def evaluators_of(experiment: Experiment) -> dict[str, EvaluatorOptions]:
    """All evaluators by name, `[evaluation]` itself as "evaluation", also those that play no episodes."""
    return {MAIN: experiment.evaluation, **experiment.evaluation.evaluators}


def plays_its_own(options: EvaluatorOptions) -> bool:
    """Whether an evaluator says anything about environment or wrappers."""
    return options.env is not None or options.wrappers is not None


def experiment_of(loaded: LoadedExperiment, name: str) -> LoadedExperiment:
    """The experiment with the environment and the wrappers of one of its evaluators.

    Raises:
        RequestError: there is no such evaluator.
    """
    evaluators = evaluators_of(loaded.experiment)
    if name not in evaluators:
        raise RequestError(
            f"the experiment has no evaluator {name!r}",
            expected=f"one of {', '.join(evaluators)}",
            nearest=nearest(name, evaluators),
            help=f"add a table [evaluation.evaluators.{name}]",
        )
    options = evaluators[name]
    tables = loaded.resolved["evaluation"]
    resolved = tables if name == MAIN else tables["evaluators"][name]
    own = {key: getattr(options, key) for key in ("env", "wrappers") if getattr(options, key) is not None}
    return attrs.evolve(
        loaded,
        experiment=attrs.evolve(loaded.experiment, **own),
        resolved={**loaded.resolved, **{key: resolved[key] for key in own}},
    )


def with_n_episodes(loaded: LoadedExperiment, name: str, n_episodes: int) -> LoadedExperiment:
    """The experiment, one of whose evaluators plays another number of episodes."""
    evaluation = loaded.experiment.evaluation
    others = {
        other: attrs.evolve(options, n_episodes=n_episodes) if other == name else options
        for other, options in evaluation.evaluators.items()
    }
    n_own = n_episodes if name == MAIN else evaluation.n_episodes
    evaluation = attrs.evolve(evaluation, n_episodes=n_own, evaluators=others)
    return attrs.evolve(loaded, experiment=attrs.evolve(loaded.experiment, evaluation=evaluation))


class EvaluationSide:
    """What one evaluator plays, and where the statistics of its wrappers come from.

    Args:
        training: the parts that are trained.
        name: of the evaluator.

    Attributes:
        assembly: the parts that are played, which are those of training where the evaluator says nothing.

    Raises:
        RequestError: there is no such evaluator, or a wrapper keeps statistics and has no counterpart in training.
    """

    def __init__(self, training: Assembly, name: str) -> None:
        self._training = training
        self._name = name
        self._options = evaluators_of(training.experiment).get(name)
        self.is_own = self._options is None or plays_its_own(self._options)
        self.assembly = training
        if self.is_own:
            self.assembly = Assembly(experiment_of(training.loaded, name), training.kernel, training.run_dir)
        self._counterparts = _counterparts(training, self.assembly) if self.is_own else None

    def check(self, pool: WorkerPool | None = None) -> None:
        """Refuse, before anything is played, what the policy cannot act on.

        Args:
            pool: where one environment is built; None: in the experiment's.

        Raises:
            RequestError: the spaces are not those of training, or a wrapper refuses the statistics of training.
            MazeError: the environment cannot be built.
        """
        if not self.is_own:
            return
        if pool is not None:
            self.assembly.check(pool)
        require_same_spaces(self._training.spaces, self.assembly.spaces, self._name, self._location)
        self._require_statistics()
        states = self.states(self._training.transform_states())
        load_statistics(self.assembly.transform_selections, self.assembly.transforms, states)

    def states_after(self, of_training: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """`states` for a policy that was trained before; likewise refuses what does not fit it.

        Raises:
            RequestError: as `check`.
        """
        load_transforms(self._training.transforms, of_training)
        self.check()
        return self.states(of_training)

    def states(self, of_training: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Statistics of the evaluator's transforms, innermost first, out of those of training."""
        if self._counterparts is None:
            return [dict(state) for state in of_training]
        return [{} if index is None else dict(of_training[index]) for index in self._counterparts]

    def _require_statistics(self) -> None:
        """Refuse wrappers without one whose statistics shaped every observation that the policy learnt from."""
        played = [wrapper.use for wrapper in self.assembly.experiment.wrappers]
        for wrapper, transform in zip(self._training.transform_selections, self._training.transforms, strict=True):
            if transform.saves_state and transform.changes("observation") and wrapper.use not in played:
                raise RequestError(
                    f"evaluator {self._name!r} shows other observations than training: {wrapper.use!r} is missing",
                    received=f"wrappers: {', '.join(played) or 'none'}",
                    expected="those of training that keep statistics, besides its own",
                    location=self._location,
                    owner=f"evaluator {self._name}",
                    help=f'add [[evaluation.wrappers]] with use = "{wrapper.use}", or train with wrappers = []',
                )

    @property
    def _location(self) -> Location | None:
        """Of the environment, else of the innermost wrapper."""
        assert self._options is not None
        parts = (self._options.env, *(self._options.wrappers or ()))
        return next((part.location for part in parts if part is not None), None)


def require_same_spaces(
    training: StructuredSpaces, played: StructuredSpaces, name: str, location: Location | None
) -> None:
    """Refuse an environment on which the policy of another one cannot act.

    Actions have to be the same, and observations of the same names and shapes; bounds of numbers may differ.

    Raises:
        RequestError: names what differs.
    """
    for key in played.policy_keys:
        if key not in training.policy_keys:
            raise _unfit(name, location, f"the policy key {key!r}", str(list(training.policy_keys)), "no such key")
        _require_same(name, location, key, "action", training.action[key], played.action[key])
        _require_same(name, location, key, "observation", training.observation[key], played.observation[key])


def _require_same(
    name: str, location: Location | None, key: str, what: str, wanted: spaces.Dict, found: spaces.Dict
) -> None:
    for leaf in {**wanted.spaces, **found.spaces}:
        first, second = wanted.spaces.get(leaf), found.spaces.get(leaf)
        if not _alike(first, second, bounds=what == "action"):
            raise _unfit(name, location, f"the {what} {leaf!r} of policy key {key!r}", str(first), str(second))


def _alike(first: spaces.Space[Any] | None, second: spaces.Space[Any] | None, *, bounds: bool) -> bool:
    if not bounds and isinstance(first, spaces.Box) and isinstance(second, spaces.Box):
        return first.shape == second.shape and first.dtype == second.dtype
    return first == second


def _unfit(name: str, location: Location | None, what: str, wanted: str, found: str) -> RequestError:
    return RequestError(
        f"the environment of evaluator {name!r} does not fit the policy: {what} differs",
        received=found,
        expected=f"{wanted}, as in training",
        location=location,
        owner=f"evaluator {name}",
        help="give it the wrappers that make both alike, [[evaluation.wrappers]]",
    )


def _counterparts(training: Assembly, played: Assembly) -> list[int | None]:
    """For each transform that is played the index of the one in training whose statistics it takes."""
    left = {index: s for index, s in enumerate(training.transform_selections) if training.transforms[index].saves_state}
    wanted = [i for i, transform in enumerate(played.transforms) if transform.saves_state]
    found: dict[int, int] = {}
    for is_it in (_is_equal, _is_alone):  # those of equal options are taken first
        for index in wanted:
            selection = played.transform_selections[index]
            twin = next((i for i in left if index not in found and is_it(selection, left[i], left.values())), None)
            if twin is not None:
                found[index] = twin
                del left[twin]
    for index in wanted:
        if index not in found:
            raise _unmatched(played.transform_selections[index], training.transform_selections)
    return [found.get(index) for index in range(len(played.transforms))]


def _is_equal(wanted: Selection, one: Selection, _left: Iterable[Selection]) -> bool:
    return one.use == wanted.use and one.options == wanted.options and one.instance is wanted.instance


def _is_alone(wanted: Selection, one: Selection, left: Iterable[Selection]) -> bool:
    return one.use == wanted.use and sum(other.use == wanted.use for other in left) == 1


def _unmatched(wanted: Selection, trained: Sequence[Selection]) -> RequestError:
    n_alike = sum(selection.use == wanted.use for selection in trained)
    return RequestError(
        f"wrapper {wanted.use!r} of the evaluation keeps statistics, and training has none that it could take",
        received=f"{n_alike} wrappers {wanted.use!r} in training",
        expected=f"one wrapper {wanted.use!r} in [[wrappers]] for each in the evaluation, or one of the same options",
        location=wanted.location,
        owner=wanted.owner,
        help="take the wrapper away, or write it as it stands in [[wrappers]]",
    )


def load_statistics(
    selections: Sequence[Selection], transforms: Sequence[Transform], states: Sequence[Mapping[str, Any]]
) -> None:
    """Give the transforms of an evaluation the statistics of training, where there are some.

    Raises:
        RequestError: one does not take them; shown at its wrapper in the experiment.
    """
    for selection, transform, state in zip(selections, transforms, states, strict=True):
        if state:
            with placed(selection):
                _load(selection, transform, state)


def _load(selection: Selection, transform: Transform, state: Mapping[str, Any]) -> None:
    try:
        transform.load_state_dict(state)
    except MazeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(
            f"wrapper {selection.use!r} of the evaluation does not take the statistics of training: {error}",
            owner=selection.owner,
            help="write it as it stands in [[wrappers]]",
        ) from error
