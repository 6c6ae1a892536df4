"""`AgentDeployment`: a policy that answers whoever calls it; wrappers, conversions and statistics as in training."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_deployment.dialogue import Dialogue
from maze_deployment.episode_loop import NotedCalls, Relay, play_for
from maze_deployment.episodes import DeployedEpisode, EpisodeTally
from maze_deployment.one_caller import OneCaller
from maze_deployment.telling import told
from maze_kernel.contracts.env import ActorID, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.events import EventRecord
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import VectorEnv
from maze_kernel.errors import RequestError
from maze_runtime.env.batching import spaces_of
from maze_runtime.env.outside import Outside, Reply, SpeaksOutside, detach
from maze_runtime.events.reporters import reporter_of
from maze_runtime.models.top_actions import ActionCandidate, top_actions

if TYPE_CHECKING:
    from maze_kernel.config.experiment import LoadedExperiment
    from maze_kernel.loader import Kernel
    from maze_runtime.context import RunContext
    from maze_runtime.training.checkpoint import Checkpoint


class AgentDeployment:
    """Answers states with actions, for a simulation or a plant that runs by itself.

    The environment's own simulation is never stepped: states come from the caller, in the simulation's own words
    (MazeStates, a Gymnasium environment's observations), and actions go back in them. What lies between, the
    wrappers, conversions and statistics, works as in `maze rollout`, and so the actions are the same, bit for bit.

    One object serves one simulation, for any number of episodes, and one caller at a time: a call while that of another
    thread runs is refused, and so is one in a process that was forked after the first `act` or `reset`. It is a
    context manager; `close` ends the last thing it keeps, a thread that waits between two calls.

    >>> with AgentDeployment.load("runs/first") as agent:  # doctest: +SKIP
    ...     action = agent.act(observation)

    Args:
        env: an environment inside its wrappers, or a factory of one; closed with this object.
        policy: decides.
        transforms: around the environment, innermost first, with the statistics to use.
        deterministic: take the mode of each distribution instead of sampling.

    Raises:
        EnvError: `env` is no environment that Maze knows.
    """

    def __init__(
        self,
        env: StructuredEnv | Callable[[], StructuredEnv],
        policy: Policy,
        *,
        transforms: Sequence[Transform] = (),
        deterministic: bool = True,
    ) -> None:
        from maze_runtime.rollout.episode_observer import played_envs
        from maze_runtime.rollout.heuristic import WatchesEnvs
        from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
        from maze_runtime.run.batch_factory import wrap_batch

        self.policy = policy
        self._outside = Relay()
        env, self._innermost = detach(_built(env), self._outside)
        self.structured_spaces = spaces_of(env)
        batch = wrap_batch(SequentialVectorEnv([lambda: env]), transforms, training=False)
        self._batch: VectorEnv | None = batch
        if isinstance(policy, WatchesEnvs):
            policy.watch_envs(played_envs(batch))
        self._tally = EpisodeTally(reporter_of(env))
        self._deterministic = deterministic
        self._transforms = tuple(transforms)
        self._policy_calls: NotedCalls | None = None
        self._dialogue: Dialogue | None = None
        self._finalizer: weakref.finalize[..., AgentDeployment] | None = None
        self._caller = OneCaller()

    @classmethod
    def load(
        cls,
        run: RunContext | Path | str,
        *,
        checkpoint: str = "best",
        policy: Any = None,
        experiment: Path | str | None = None,
        deterministic: bool = True,
        kernel: Kernel | None = None,
    ) -> AgentDeployment:
        """The agent of a run, or of an experiment with a policy that needs no training.

        Args:
            run: a run directory or a `RunContext`; where `policy` is given, an experiment file or a context that has
                not trained will do.
            checkpoint: "best", "last" or "epoch-N".
            policy: name or table of a policy component to act instead of the trained one.
            experiment: the experiment file of a run directory, where it imports code by path.
            deterministic: see `AgentDeployment`.
            kernel: the plugins to use for a path; None: everything that is installed.

        Raises:
            RequestError: there is no such run or checkpoint, or nothing is trained and no policy given.
        """
        from maze_deployment.source import open_source

        source = open_source(run, checkpoint=checkpoint, experiment=experiment, kernel=kernel)
        return cls.of_experiment(
            source.loaded,
            source.kernel,
            checkpoint=source.checkpoint,
            policy=policy,
            deterministic=deterministic,
            run_dir=source.run_dir,
        )

    @classmethod
    def of_experiment(
        cls,
        loaded: LoadedExperiment,
        kernel: Kernel,
        *,
        checkpoint: Checkpoint | None,
        policy: Any = None,
        deterministic: bool = True,
        run_dir: Path | None = None,
    ) -> AgentDeployment:
        """The agent of an experiment that was read already; see `load`, and `Assembly` on `run_dir`."""
        from maze_kernel.config.load import select
        from maze_runtime.playing import players as playing
        from maze_runtime.run.assembly import Assembly
        from maze_runtime.run.wrapper_lists import load_transforms

        assembly = Assembly(loaded, kernel, run_dir)
        if policy is not None:
            make_policy: Any = playing.ComponentPolicy(loaded, kernel, select(kernel, "policy", policy))
        elif checkpoint is not None:
            make_policy = playing.TrainedPolicy(loaded, kernel, playing.weights_of(checkpoint))
        else:
            raise RequestError(
                "there is nothing trained to deploy", help="train first, or give a policy that needs no training"
            )
        transforms = assembly.make_transforms()
        states = assembly.estimated_states() if checkpoint is None else checkpoint.transforms
        load_transforms(transforms, states)
        return cls(
            assembly.env_factory(training=False), make_policy(0), transforms=transforms, deterministic=deterministic
        )

    def act(
        self,
        maze_state: Any,
        reward: float | Mapping[str, float] = 0.0,
        terminated: bool | Mapping[str, bool] = False,
        truncated: bool | Mapping[str, bool] = False,
        info: Mapping[str, Any] | None = None,
        *,
        actor_id: ActorID | str | None = None,
        flat_step_end: bool = True,
        events: Sequence[EventRecord] = (),
    ) -> Any:
        """Take note of what the last action led to, and decide.

        The first call begins an episode, and so does the first one after an episode ended. A state that is refused
        changes nothing: call again with a correct one. After any other error the next call begins an episode.

        A PettingZoo game tells of its agents by their names: of one with `actor_id`, as its `last()` does, or of
        several with dicts by agent, as `reset` and `step` of a parallel game return them. Its episode ends when
        everybody who was told of is out.

        Args:
            maze_state: the state in the simulation's own words.
            reward: of the last action.
            terminated, truncated: whether the episode ended; then nothing is left to decide.
            info: as Gymnasium has it; holds the action mask where the environment's info does.
            actor_id: who decides, where a simulation of several policy keys or agents asks one at a time; of a game
                also the name of the agent.
            flat_step_end: whether the last action let time advance; for the same simulations, but not for games.
            events: what happened in the simulation, for the statistics.

        Returns:
            The action in the simulation's own words; None where the episode ended. Where a core environment
            previews its sub-steps: the tuple of the flat step's actions. Of several agents of a game: a dict of the
            actions of those that are not out.

        Raises:
            EnvError: the state or another argument is malformed.
            NonFiniteError: the reward or an observation is NaN or infinite.
            RequestError: the agent is closed, another thread's call runs, or the agent's thread is in the process that
                this one was forked from.
        """
        given: Any = {
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "info": {} if info is None else info,
        }
        reply = Reply(maze_state=maze_state, **given, flat_step_end=flat_step_end, events=events)
        with self._caller:
            return self._answer(reply, actor_id)

    def _answer(self, reply: Reply, actor: ActorID | str | None) -> Any:
        """What `act` returns; its caller is the only one."""
        is_first = not self._tally.waits_for_result
        news = told(reply, actor, self._innermost, is_first=is_first)
        if news.reply is None:
            return news.answer(None if is_first else {})
        dialogue = self._dialogue or self._begin(None)
        self._tally.add(news.reply)
        try:
            action = dialogue.answer(news.reply)
        except BaseException:
            self._forget_dialogue()
            raise
        if news.reply.ends_episode:
            self._tally.end(news.reply)
        else:
            self._tally.waits_for_result = True
        return news.answer(action)

    def top_actions(self, k: int = 5) -> list[ActionCandidate]:
        """The k most probable actions for the decision that the last `act` took, with their probabilities.

        Actions of a Gymnasium environment are in its own space, as those of `act`; others in the action space that
        wrappers see. Of several decisions in one `act` the last one counts.

        Raises:
            RequestError: nothing was decided yet, the policy does not act by the distributions of its networks, or as
                `act`.
            SpaceError: actions cannot be counted, as in a Box.
        """
        with self._caller:
            return self._top_actions(k)

    def _top_actions(self, k: int) -> list[ActionCandidate]:
        decided = None if self._policy_calls is None else self._policy_calls.last_key
        logits = getattr(self.policy, "last_logits", None)
        if decided is None or not logits:
            raise RequestError(
                "there is no decision whose actions have probabilities",
                received="no call of act yet" if decided is None else f"the policy {type(self.policy).__name__}",
                help="call act first" if decided is None else "deploy a policy that samples from its networks",
            )
        model: Any = self.policy.model  # type: ignore[attr-defined]
        innermost, found = self._innermost, []
        for action, share in top_actions(model.distributions[decided], model.spaces.action[decided], logits, k):
            for transform in reversed(self._transforms):
                action = dict(transform.action(decided, action))
            if isinstance(innermost, SpeaksOutside):
                found.append(ActionCandidate(innermost.outside_action(action), share))
            else:
                found.append(ActionCandidate(next(iter(action.values())) if len(action) == 1 else action, share))
        return found

    def reset(self, *, seed: int | None = None) -> None:
        """Forget an unfinished episode; the next `act` begins one.

        Calling it is only necessary where episodes break off, or to give a seed.

        Args:
            seed: of sampled actions and of wrappers that draw something, as `maze rollout` seeds an episode.

        Raises:
            RequestError: as `act`.
        """
        with self._caller:
            self._require_open()
            self._forget_dialogue()
            self._begin(seed)

    def drain_episodes(self) -> list[DeployedEpisode]:
        """The episodes that ended since the last call, the newest 10 000 of them; another thread may ask, too."""
        return self._tally.drain()

    def close(self) -> None:
        """Let wrappers finish, end the thread and close the environment; may be called again.

        Nothing happens in a process that was forked while the agent's thread was there: that is for the other process.

        Raises:
            RequestError: another thread's call runs.
        """
        if self._caller.is_elsewhere:
            return
        with self._caller:
            batch, self._batch = self._batch, None
            try:
                self._forget_dialogue()
            finally:
                if batch is not None:
                    batch.close()

    def __enter__(self) -> AgentDeployment:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _begin(self, seed: int | None) -> Dialogue:
        """A loop that plays episodes and waits for a first state."""
        policy = self._policy_calls = NotedCalls(self.policy)
        batch, relay, deterministic = self._require_open(), self._outside, self._deterministic

        def loop(outside: Outside) -> None:
            relay.outside = outside
            play_for(batch, policy, outside, seed, deterministic)

        self._dialogue = Dialogue(loop)
        self._caller.process_id = os.getpid()
        self._finalizer = weakref.finalize(self, self._dialogue.dismiss)
        return self._dialogue

    def _forget_dialogue(self) -> None:
        dialogue, self._dialogue = self._dialogue, None
        self._tally.forget()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._caller.process_id = None
        if dialogue is not None:
            dialogue.close()

    def _require_open(self) -> VectorEnv:
        if self._batch is None:
            raise RequestError("the agent is closed", help="load it anew")
        return self._batch


def _built(env: Any) -> StructuredEnv:
    """The environment itself, or what the factory makes; one of another library where a plugin adapts it."""
    if isinstance(getattr(env, "structured_spaces", None), StructuredSpaces):
        return env  # type: ignore[no-any-return]
    made = env() if callable(env) and not hasattr(env, "step") else env
    if isinstance(getattr(made, "structured_spaces", None), StructuredSpaces):
        return made  # type: ignore[no-any-return]
    from maze_kernel.loader import Kernel
    from maze_runtime.run.env_factory import adapted, adapters_of

    return adapted(made, adapters_of(Kernel.installed().catalog))
