"""What whoever embeds an agent relies on: bad states change nothing, errors surface, nothing stays behind."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_deployment.agent import AgentDeployment
from maze_kernel import MazeError
from maze_kernel.contracts.env import ActorID, StructuredSpaces
from maze_kernel.contracts.events import EventRecord
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.errors import EnvError, NonFiniteError, RequestError
from maze_runtime.context import RunContext
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.declaration import define_episode_stats, define_epoch_stats, define_step_stats
from maze_runtime.rollout.heuristic import Heuristic
from maze_runtime.rollout.random_policy import RandomPolicy

sys.path.insert(0, str(Path(__file__).parent))
from playing_both_ways import Recording, assert_same_decisions

GOOD = np.array([0.01, -0.02, 0.03, 0.04], np.float32)


@pytest.fixture(scope="module")
def context(train):
    return train("CartPole-v1", wrappers=["observation-normalization"])


BAD = {
    "a wrong shape": ({"maze_state": np.zeros(3, np.float32)}, EnvError),
    "text": ({"maze_state": "upright"}, EnvError),
    "nothing": ({"maze_state": None}, EnvError),
    "a dict": ({"maze_state": {"position": 0.0}}, EnvError),
    "NaN": ({"maze_state": np.array([0, 0, np.nan, 0], np.float32)}, NonFiniteError),
    "a number beyond float32": ({"maze_state": np.array([0, 0, 1e300, 0])}, EnvError),
    "infinity": ({"maze_state": np.array([0, 0, np.inf, 0], np.float32)}, NonFiniteError),
    "a missing reward": ({"reward": None}, EnvError),
    "a NaN reward": ({"reward": float("nan")}, NonFiniteError),
    "a flag in words": ({"terminated": "no"}, EnvError),
    "info in words": ({"info": "none"}, EnvError),
    "an unknown actor": ({"actor_id": ActorID("cut", 0)}, EnvError),
    "an agent too many": ({"actor_id": ActorID("0", 7)}, EnvError),
    "an actor in words": ({"actor_id": "0"}, EnvError),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("n_before", [0, 3])
def test_a_malformed_state_is_refused_and_changes_nothing(context, bad, n_before):
    arguments, error = BAD[bad]
    states = np.random.default_rng(0).normal(0, 0.1, (6, 4)).astype(np.float32)
    logs = []
    for disturbed in (False, True):
        with AgentDeployment.load(context, deterministic=False) as agent:
            agent.policy = recording = Recording(agent.policy)
            agent.reset(seed=4)
            for step, state in enumerate(states):
                if disturbed and step == n_before:
                    for _ in range(2):
                        with pytest.raises(error) as raised:
                            agent.act(**({"maze_state": state} | arguments))
                        assert "AgentDeployment.act" in raised.value.owner
                agent.act(state, 1.0)
            agent.act(states[0], 1.0, True)
            (episode,) = agent.drain_episodes()
            assert (episode.total_reward, episode.length) == (6.0, 6)
        logs.append(recording.log)
    assert_same_decisions(*logs)


def test_the_first_state_cannot_end_an_episode(context):
    with AgentDeployment.load(context) as agent, pytest.raises(EnvError, match="first state"):
        agent.act(GOOD, 0.0, True)


def test_values_outside_of_a_discrete_space_are_refused():
    space = spaces.Dict(kind=spaces.Discrete(3), pair=spaces.MultiDiscrete([2, 2]), bits=spaces.MultiBinary(2))
    good = {"kind": 2, "pair": np.array([1, 0]), "bits": np.array([0, 1], np.int8)}
    with AgentDeployment(flat_env(space), random_policy(space)) as agent:
        agent.act(good)
        for name, value in {"kind": 3, "pair": np.array([2, 0]), "bits": np.array([0, 2], np.int8)}.items():
            with pytest.raises(EnvError, match=name):
                agent.act({**good, name: value})
        assert agent.act(good)["go"] in (0, 1)


@pytest.mark.filterwarnings("error")
def test_numbers_that_the_dtype_of_a_space_cannot_hold_are_refused_by_name():
    space = spaces.Dict(level=spaces.Box(-np.inf, np.inf, (2,), np.float32), count=spaces.Box(-9, 9, (2,), np.int16))
    good = {"level": np.array([1e30, -1.0]), "count": np.array([7, -7])}
    with AgentDeployment(flat_env(space), random_policy(space)) as agent:
        for name, value in {"level": np.array([1.0, -1e39]), "count": np.array([40_000, 0])}.items():
            with pytest.raises(EnvError, match=f"{name}' of policy key '0' holds numbers beyond") as refused:
                agent.act({**good, name: value})
            assert refused.value.received in ("[-1.e+39]", "[40000]")
        assert agent.act(good)["go"] in (0, 1)


def flat_env(space):
    env = FlatEnv()
    env.structured_spaces = flat_spaces(space, spaces.Dict(go=spaces.Discrete(2)))
    return env


def random_policy(space):
    return RandomPolicy(PolicyContext(spaces=flat_env(space).structured_spaces))


class Failing:
    """A policy that fails at its third decision."""

    def __init__(self, policy):
        self.policy, self.n = policy, 0

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def act(self, *args, **kwargs):
        self.n += 1
        if self.n == 3:
            raise ZeroDivisionError("third decision")
        return self.policy.act(*args, **kwargs)


def test_an_error_of_the_policy_surfaces_and_the_next_call_begins_an_episode(context):
    n_threads = threading.active_count()
    with AgentDeployment.load(context) as agent:
        agent.policy = Failing(agent.policy)
        agent.act(GOOD)
        agent.act(GOOD)
        with pytest.raises(ZeroDivisionError, match="third decision") as raised:
            agent.act(GOOD)
        assert any(frame.name == "act" and frame.path.name == Path(__file__).name for frame in raised.traceback)
        assert threading.active_count() == n_threads
        assert agent.act(GOOD) in (0, 1)
        agent.act(GOOD, 1.0, True)
        assert [episode.length for episode in agent.drain_episodes()] == [1]


def test_a_wrapper_that_ends_episodes_does_not_stop_the_simulation(train):
    context = train("CartPole-v1", wrappers=[{"use": "time-limit", "max_episode_steps": 3}])
    with AgentDeployment.load(context) as agent:
        assert all(agent.act(GOOD, 1.0) in (0, 1) for _ in range(10))
        assert agent.act(GOOD, 1.0, False, True) is None


class BellEvents:
    @define_epoch_stats(sum, output_name="all")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def rang(self):
        """At every step."""


class Bell(CoreEnv):
    """Pays for the action that its state names; seven steps."""

    def __init__(self):
        super().__init__()
        self.events, self.t = self.pubsub.create_event_topic(BellEvents), 0

    def reset(self, seed=None):
        self.t = 0
        return self.get_maze_state()

    def get_maze_state(self):
        return {"right": (self.t // 2) % 2}

    def step(self, maze_action):
        reward = float(maze_action == self.get_maze_state()["right"])
        self.events.rang()
        self.t += 1
        return self.get_maze_state(), reward, False, self.t == 7, {}


class Blind(ObservationConversion):
    def space(self):
        return spaces.Dict(nothing=spaces.Box(0, 1, (1,), np.float32))

    def maze_to_space(self, maze_state):
        return {"nothing": np.zeros(1, np.float32)}


class Press(ActionConversion):
    def space(self):
        return spaces.Dict(button=spaces.Discrete(2))

    def space_to_maze(self, action, maze_state):
        return int(action["button"])


class Looks(Heuristic):
    def act_one(self, observation, moment):
        assert moment.env is not None
        return moment.maze_state["right"]


class Plans(Heuristic):
    def act_one(self, observation, moment):
        return self.clone(moment).step({"button": 1})[1]


def bell():
    return MazeEnv(Bell(), Blind(), Press())


@pytest.mark.parametrize("wrappers", [[], [{"use": "time-limit", "max_episode_steps": 3}]])
def test_a_heuristic_sees_the_simulation_and_events_are_those_of_the_whole_episode(wrappers):
    context = RunContext(env=bell, wrappers=wrappers, silent=True)
    core_env = Bell()
    with AgentDeployment.load(context, policy=f"{__name__}:Looks") as agent:
        action = agent.act(core_env.reset())
        while action is not None:
            events = [EventRecord(BellEvents, BellEvents.rang, {})]
            action = agent.act(*core_env.step(action), events=events)
        (episode,) = agent.drain_episodes()
    assert (episode.length, episode.total_reward) == (7, 7.0)
    epoch = EpochAggregator()
    epoch.add_episodes([episode.events])
    assert epoch.reduce() == {"BellEvents/rang/all": 7}


class FailsOnce(Looks):
    """At the sixth decision."""

    n = 0

    def act_one(self, observation, moment):
        FailsOnce.n += 1
        if FailsOnce.n == 6:
            raise ZeroDivisionError("sixth decision")
        return super().act_one(observation, moment)


@pytest.mark.parametrize("policy", [Looks, FailsOnce])
@pytest.mark.parametrize("wrappers", [[], [{"use": "time-limit", "max_episode_steps": 3}]])
def test_events_of_a_forgotten_episode_are_not_those_of_the_next(wrappers, policy):
    context = RunContext(env=bell, wrappers=wrappers, silent=True)
    core_env, FailsOnce.n = Bell(), 0
    events = [EventRecord(BellEvents, BellEvents.rang, {})]
    with AgentDeployment.load(context, policy=f"{__name__}:{policy.__name__}") as agent:
        action = agent.act(core_env.reset())
        for _ in range(4):
            action = agent.act(*core_env.step(action), events=events)
        if policy is Looks:
            agent.reset()
        else:
            with pytest.raises(ZeroDivisionError):
                agent.act(*core_env.step(action), events=events)
        action = agent.act(core_env.reset())
        while action is not None:
            action = agent.act(*core_env.step(action), events=events)
        (episode,) = agent.drain_episodes()
    epoch = EpochAggregator()
    epoch.add_episodes([episode.events])
    assert (episode.length, epoch.reduce()) == (7, {"BellEvents/rang/all": 7})


@pytest.mark.parametrize("env", [bell, "CartPole-v1"])
def test_a_simulation_elsewhere_cannot_be_cloned(env):
    with (
        AgentDeployment.load(RunContext(env=env, silent=True), policy=f"{__name__}:Plans") as agent,
        pytest.raises(EnvError, match="runs outside of this process"),
    ):
        agent.act({"right": 0} if env is bell else GOOD)


def test_an_unfinished_episode_can_be_forgotten(context):
    with AgentDeployment.load(context) as agent:
        agent.act(GOOD)
        agent.act(GOOD, 5.0)
        agent.reset()
        agent.act(GOOD)
        agent.act(GOOD, 1.0, True)
        assert [episode.total_reward for episode in agent.drain_episodes()] == [1.0]
        assert agent.drain_episodes() == []


def test_of_episodes_that_nobody_asks_for_the_newest_are_kept(context, monkeypatch):
    monkeypatch.setattr("maze_deployment.episodes.MAX_KEPT", 3)
    with AgentDeployment.load(context) as agent:
        for reward in range(5):
            agent.act(GOOD)
            agent.act(GOOD, float(reward), True)
        assert [episode.total_reward for episode in agent.drain_episodes()] == [2.0, 3.0, 4.0]
        assert agent.drain_episodes() == []


def test_a_closed_agent_says_so(context):
    agent = AgentDeployment.load(context)
    agent.act(GOOD)
    agent.close()
    agent.close()
    with pytest.raises(RequestError, match="closed"):
        agent.act(GOOD)


def test_an_agent_that_is_thrown_away_takes_its_thread_along(context):
    agent = AgentDeployment.load(context)
    agent.act(GOOD)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "maze-deployment"]
    del agent
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_program_ends_without_closing_its_agent(context):
    code = f"""
import numpy as np
from maze_deployment.agent import AgentDeployment
agent = AgentDeployment.load({str(context.run_dir)!r})
print(agent.act(np.zeros(4, np.float32)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in ("0", "1")


def test_a_run_directory_is_all_it_takes(context):
    from_context, from_run = AgentDeployment.load(context), AgentDeployment.load(context.run_dir, checkpoint="last")
    with from_context, from_run:
        assert from_context.act(GOOD) == from_run.act(GOOD)


def test_an_experiment_file_needs_a_policy(tmp_path):
    file = tmp_path / "experiment.toml"
    file.write_text('name = "shown"\n[env]\nuse = "gym"\nid = "CartPole-v1"\n[trainer]\nuse = "ppo"\n')
    with AgentDeployment.load(file, policy="random") as agent:
        assert agent.act(GOOD) in (0, 1)
    with pytest.raises(RequestError, match="nothing trained"):
        AgentDeployment.load(file)
    with pytest.raises(MazeError, match="not-there"):
        AgentDeployment.load(tmp_path / "not-there")


def test_a_policy_that_needs_no_training_is_shown_normalised_observations(tmp_path):
    experiment = tmp_path / "pole.toml"
    experiment.write_text(
        'name = "pole"\nenv = { use = "gym", id = "CartPole-v1" }\ntrainer = { use = "ppo" }\n'
        '[[wrappers]]\nuse = "observation-normalization"\nclip_range = [-1.0, 1.0]\n'
    )
    with AgentDeployment.load(experiment, policy="random") as agent:
        agent.policy = recording = Recording(agent.policy)
        agent.act(np.full(4, 2.0, np.float32))
    ((_, seen, _),) = recording.log
    assert seen["observation"].tolist() == [[1.0] * 4]


def test_a_context_brings_its_experiment_and_its_plugins(context):
    for besides in ({"kernel": context.kernel}, {"experiment": "experiment.toml"}):
        with pytest.raises(RequestError, match="a RunContext has its experiment and its plugins"):
            AgentDeployment.load(context, **besides)
    with pytest.raises(MazeError, match="has no checkpoint epoch-000099") as caught:
        AgentDeployment.load(context, checkpoint="epoch-99")
    assert caught.value.expected == "best, last, epoch-1"
    assert "keep" in caught.value.help


def test_an_untrained_context_needs_a_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = RunContext(env="CartPole-v1", silent=True)
    with pytest.raises(RequestError, match="nothing trained"):
        AgentDeployment.load(context)
    with AgentDeployment.load(context, policy="random") as agent:
        assert agent.act(GOOD) in (0, 1)


def test_environment_and_policy_may_be_given_as_objects():
    policy = random_policy(spaces.Dict(observation=gymnasium.make("CartPole-v1").observation_space))
    policy._actions = {"0": {"action": spaces.Discrete(2)}}
    for env in (gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1")):
        with AgentDeployment(env, policy) as agent:
            assert agent.act(GOOD) in (0, 1)
    with pytest.raises(EnvError, match="no StructuredEnv"):
        AgentDeployment(object(), policy)


def test_a_simulation_of_several_actors_says_who_decides():
    one, two = spaces.Dict(x=spaces.Box(0, 1, (1,))), spaces.Dict(y=spaces.Box(0, 1, (2,)))
    structured = StructuredSpaces(
        observation={"first": one, "second": two},
        action={"first": spaces.Dict(a=spaces.Discrete(2)), "second": spaces.Dict(b=spaces.Discrete(3))},
        agent_counts={"first": 1, "second": 2},
    )
    env = FlatEnv()
    env.structured_spaces = structured
    with AgentDeployment(env, RandomPolicy(PolicyContext(spaces=structured))) as agent:
        agent.policy = recording = Recording(agent.policy)
        assert set(agent.act({"x": np.zeros(1)})) == {"a"}
        second = {"y": np.zeros(2)}
        for agent_id in range(2):
            assert set(agent.act(second, actor_id=ActorID("second", agent_id), flat_step_end=False)) == {"b"}
        assert agent.act({"x": np.zeros(1)}, 1.0, True) is None
        assert [key for key, _, _ in recording.log] == ["first", "second", "second"]
        assert [episode.length for episode in agent.drain_episodes()] == [1]


def test_the_most_probable_actions_of_the_last_decision(tmp_path):
    context = RunContext(
        env="CartPole-v1", overrides={"trainer.epoch_length": 1}, run_dir=tmp_path / "run", silent=True
    )
    context.train(n_epochs=1)
    observation = np.array([0.1, -0.2, 0.05, 0.3], np.float32)
    with AgentDeployment.load(context) as agent:
        with pytest.raises(RequestError, match="no decision"):
            agent.top_actions()
        action = agent.act(observation)
        candidates = agent.top_actions(2)
    assert candidates[0].action == action
    assert candidates == context.top_actions(observation, 2)


def test_a_policy_that_draws_has_no_probabilities():
    context = RunContext(env="CartPole-v1", silent=True)
    with AgentDeployment.load(context, policy="random") as agent:
        agent.act(np.zeros(4, np.float32))
        with pytest.raises(RequestError, match="deploy a policy that samples"):
            agent.top_actions()
