"""What reaches the replay buffers, against a slow account of everything that happened in the environments."""

import itertools
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import torch
from sac_environments import CREWS, GAMMA, Wanderer, spaces_of

from maze_kernel.config.load import select
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import VectorContext
from maze_kernel.contracts.workers import USUAL_GROUP, ActorContext
from maze_kernel.errors import WorkerError
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.env.simulation import Recording
from maze_runtime.models.flat_parameters import FlatParameters
from maze_runtime.rollout.pooled_batch import pooled_batch
from maze_runtime.rollout.random_policy import RandomPolicy
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_runtime.rollout.vector_options import PooledVectorOptions
from maze_runtime.workers.inline import InlineFuture, InlinePool
from maze_sac.experience import Experience
from maze_sac.options import SACOptions
from maze_trajectories.recording import RecordingEnv

NO_WEIGHTS = SimpleNamespace(data=torch.empty(0))
"""Of a model that is not trained."""


def account(episode):
    """Observation number to (key, action, reward, discount, next observation) of one episode, decision by decision."""
    decisions, result = episode["decisions"], {}
    for k, first in enumerate(decisions):
        reward, discount, following = 0.0, 1.0, None
        for j in range(k, len(decisions)):
            if j > k and decisions[j]["actor"] == first["actor"]:
                following = decisions[j]["seen"]
                break
            reward += discount * decisions[j]["reward"]
            discount *= decisions[j]["gamma"]
            if first["done"] or first["actor"] in decisions[j]["gone"]:
                discount = 0.0
                break
        else:
            actor, seen = episode["last"]
            if episode["end"] == "terminated":
                discount = 0.0
            elif actor == first["actor"]:
                following = seen
            else:
                continue
        result[first["seen"]] = (first["actor"].step_key, first["action"], reward, discount, following)
    return result


def everything(envs):
    result = {}
    for env in envs:
        for episode in env.episodes:
            result |= account(episode)
    return result


@pytest.fixture
def play(assemble):
    """`play(crew, n_envs)` -> (experience, environments), a segment started."""

    def build(crew, n_envs, **options):
        envs = [Wanderer(crew, index + 1) for index in range(n_envs)]
        context = attrs.evolve(
            assemble(trainer={"use": "sac"}).trainer_context(),
            spaces=spaces_of(CREWS[crew]),
            make_vector_env=lambda: SequentialVectorEnv([lambda env=env: env for env in envs]),
            make_env=lambda: envs[0],
            make_policy=lambda _model, seed: RandomPolicy(PolicyContext(spaces=spaces_of(CREWS[crew]), seed=seed)),
        )
        experience = Experience(context, None, NO_WEIGHTS, SACOptions(gamma=GAMMA, replay_buffer_size=5000, **options))
        experience.start_segment(0)
        return experience, envs

    return build


def check_against(expected, experience):
    """Everything drawn is in the account, and nearly all of that is drawn."""
    drawn = set()
    for key, drawn_batch in experience.sample(3000, np.random.default_rng(0)).items():
        batch = drawn_batch.transitions
        for i, number in enumerate(batch.observation["x"][:, 0].tolist()):
            wanted_key, action, reward, discount, following = expected[number]
            assert (key, int(batch.action["a"][i])) == (wanted_key, action)
            assert batch.reward[i] == pytest.approx(reward, abs=1e-5)
            assert batch.discount[i] == pytest.approx(discount, abs=1e-6)
            if discount:
                assert batch.next_observation["x"][i].tolist() == [following, following]
            drawn.add(number)
    assert len(drawn) > 0.9 * len(expected)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("crew", CREWS)
def test_transitions_run_to_the_same_actors_next_decision(play, crew, n_envs):
    experience, envs = play(crew, n_envs)
    experience.collect(250)
    expected = everything(envs)
    assert experience.n_transitions == len(expected) > 100
    check_against(expected, experience)


class Chance(torch.nn.Module):
    """A model that acts at random."""

    def __init__(self, spaces):
        super().__init__()
        self.spaces = spaces
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def make_policy(self, seed):
        return RandomPolicy(PolicyContext(spaces=self.spaces, seed=seed))


class ChancePolicy:
    """Offers `SamplesDistributions`."""

    is_mirrored = False

    def __init__(self, model):
        self.model = model

    def seed(self, seed):
        self._rng = np.random.default_rng(seed)

    def draw_seeds(self, n_seeds):
        return self._rng.integers(1 << 31, size=n_seeds).tolist()

    def act(self, policy_key, group, *, deterministic):
        """Asked of episodes that were cut, for masks that forbid everything; these environments have no masks."""
        assert deterministic
        return {}


class Losing(InlinePool):
    """Every seventh rollout takes its actor with it; the next call finds a replacement."""

    def spawn(self, factory, n_actors, options=USUAL_GROUP):
        group = super().spawn(factory, n_actors, attrs.evolve(options, arrays={}))
        call, self.restarts = group.call, [0] * n_actors
        calls = itertools.count(1)

        def call_or_lose(index, method, *arguments, **how):
            if method == "collect" and next(calls) % 7 == 0:
                self.restarts[index] += 1
                group._actors[index] = factory(ActorContext(index=index, n_actors=n_actors, arrays={}))
                return InlineFuture(index, None, WorkerError(f"actor {index} is gone", cause="lost"))
            return call(index, method, *arguments, **how)

        group.call, group.restarts = call_or_lose, self.restarts.__getitem__
        return group


@pytest.mark.filterwarnings("ignore:.*start new episodes in another")
@pytest.mark.parametrize("pool", [InlinePool, Losing])
@pytest.mark.parametrize("n_rollout_steps", [1, 2, 25])
@pytest.mark.parametrize("crew", CREWS)
def test_rollouts_of_workers_hold_the_same_transitions(assemble, crew, n_rollout_steps, pool):
    """However rollouts cut flat steps and episodes, whichever policy workers follow, and if they die."""
    envs = []

    def make_env():
        envs.append(Wanderer(crew, len(envs) + 1))
        return envs[-1]

    batch = pooled_batch(
        VectorContext(
            n_envs=3,
            env_factory=make_env,
            make_workers=pool,
            has_workers=True,
            spaces=spaces_of(CREWS[crew]),
        ),
        PooledVectorOptions(),
    )
    model = Chance(spaces_of(CREWS[crew]))
    context = attrs.evolve(
        assemble(trainer={"use": "sac"}).trainer_context(),
        spaces=model.spaces,
        make_vector_env=lambda: BatchGuard(batch),
        make_policy=lambda model, _seed: ChancePolicy(model),
    )
    options = SACOptions(gamma=GAMMA, replay_buffer_size=5000, n_rollout_steps=n_rollout_steps)
    experience = Experience(context, model, FlatParameters(model), options)
    experience.start_segment(0)
    n_steps = sum(experience.collect(50, initial=turn % 2 == 0) for turn in range(5))
    episodes = [episode for env in envs for episode in env.episodes]
    assert n_steps == sum(row["gamma"] != 1.0 for episode in episodes for row in episode["decisions"])
    expected = everything(envs)
    assert experience.n_transitions == len(expected) > 100
    check_against(expected, experience)
    statistics, ended = experience.drain(), [episode for episode in episodes if episode["end"] is not None]
    assert statistics["BaseEnvEvents/episode_count"] == len(ended)
    lengths = [sum(row["gamma"] != 1.0 for row in episode["decisions"]) for episode in ended]
    assert statistics["BaseEnvEvents/episode_length/mean"] == pytest.approx(np.mean(lengths))
    assert (len(envs) > 3) is (pool is Losing)
    experience.close()


@pytest.fixture
def recorded(kernel, tmp_path):
    """`recorded(crew)` -> (data, account) of 40 episodes; some are cut off by the next reset."""

    def record(crew):
        wanderer = Wanderer(crew, 9)
        env = RecordingEnv(wanderer, Recording(folder=tmp_path / "expert"))
        rng = np.random.default_rng(0)
        for seed in range(40):
            env.reset(seed=seed)
            for _ in range(int(rng.integers(1, 30))):
                *_, terminated, truncated, _ = env.step({"a": np.int64(rng.integers(1000))})
                if terminated or truncated:
                    break
        env.close()
        return select(kernel, "dataset", {"path": str(tmp_path / "expert")}), everything([wanderer])

    return record


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("crew", CREWS)
def test_recorded_transitions_are_those_of_play(play, recorded, crew, keep):
    data, expected = recorded(crew)
    experience, envs = play(crew, 2, demonstrations=data, keep_demonstrations=keep)
    experience.add_demonstrations()
    assert experience.n_transitions == len(expected) > 100
    experience.collect(100)
    check_against(expected | everything(envs), experience)


def test_a_demonstration_fraction_holds_for_every_policy_key(play, recorded):
    data, expected = recorded("agents out of step")
    options = {"keep_demonstrations": True, "demonstration_fraction": 0.25}
    experience, _ = play("agents out of step", 2, demonstrations=data, **options)
    experience.add_demonstrations()
    experience.collect(100)
    for batch in experience.sample(400, np.random.default_rng(0)).values():
        assert sum(number in expected for number in batch.observation["x"][:, 0].tolist()) == 100


def test_a_new_segment_forgets_what_waits_and_keeps_what_is_complete(play):
    experience, envs = play("agents out of step", 2)
    experience.collect(40)
    n_complete = experience.n_transitions
    experience.start_segment(1)
    assert experience.n_transitions == n_complete
    experience.collect(40)
    assert experience.n_transitions == len(everything(envs)) > n_complete


def test_steps_and_episode_lengths_are_flat_steps(play):
    experience, envs = play("two keys in turn", 1)
    n_steps = experience.collect(101)
    ends = [decision["gamma"] < 1.0 for episode in envs[0].episodes for decision in episode["decisions"]]
    assert n_steps == sum(ends)
    finished = [episode["decisions"] for episode in envs[0].episodes if episode["end"]]
    lengths = [sum(decision["gamma"] < 1.0 for decision in decisions) for decisions in finished]
    statistics = experience.drain()
    assert statistics["BaseEnvEvents/episode_count"] == len(finished)
    assert statistics["BaseEnvEvents/episode_length/mean"] == pytest.approx(np.mean(lengths))
