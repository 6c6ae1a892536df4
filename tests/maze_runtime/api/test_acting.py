"""Acting from Python: masks that come in info, and the most probable actions."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_deployment.agent import AgentDeployment
from maze_kernel.errors import RequestError, SpaceError
from maze_runtime.context import RunContext

SMALL = {"vector.n_envs": 2, "trainer": {"epoch_length": 1, "n_rollout_steps": 32, "batch_size": 32}}


class Masked(gymnasium.Env):
    """Three choices, of which `info` allows those that the step's number says."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def _seen(self):
        allowed = [True, self.t % 2 == 0, self.t % 3 == 0]
        return np.full(2, np.cos(self.t), np.float32), {"action_mask": np.array(allowed, np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen()

    def step(self, action):
        assert self._seen()[1]["action_mask"][action], "a forbidden action"
        self.t += 1
        observation, info = self._seen()
        return observation, float(action), self.t == 12, False, info


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_masks_are_taken_from_info():
    context = RunContext(env=Masked, overrides=SMALL, silent=True)
    context.train(n_epochs=1)
    (episode,) = context.rollout(1).episodes
    env, total, ended = Masked(), 0.0, False
    observation, info = env.reset(seed=episode.seed)
    while not ended:
        best = context.top_actions(observation, 5, info)
        assert len(best) == info["action_mask"].sum()
        action = context.compute_action(observation, info)
        assert best[0].action == action
        observation, reward, ended, _, info = env.step(action)
        total += reward
    assert total == episode.total_reward
    with pytest.raises(RequestError, match="give info="):
        context.compute_action(observation)


def test_the_most_probable_actions_are_as_frequent_as_they_say_and_change_nothing():
    context = RunContext(env="CartPole-v1", wrappers=[{"use": "observation-stack", "n": 3}], overrides=SMALL)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    for _ in range(3):
        candidates = context.top_actions(observation)
        assert context.top_actions(observation) == candidates
        assert sum(candidate.probability for candidate in candidates) == pytest.approx(1.0, abs=1e-5)
        assert [candidate.probability for candidate in candidates] == sorted(
            (candidate.probability for candidate in candidates), reverse=True
        )
        action = context.compute_action(observation)
        assert candidates[0].action == action
        observation, *_ = env.step(action)
    context.begin_episode()
    first, _ = env.reset(seed=1)
    (best, *_), sampled = context.top_actions(first), []
    for _ in range(400):
        context.begin_episode()
        sampled.append(context.compute_action(first, deterministic=False))
    assert np.mean(np.array(sampled) == best.action) == pytest.approx(best.probability, abs=0.1)


def test_a_policy_with_a_memory_goes_on_as_if_nobody_had_asked():
    from maze_testing.environments import RepeatFirst

    model = {"use": "auto", "recurrence": {"use": "gru", "stateful": True, "hidden_size": 8}}
    asked, alone = (
        RunContext(env=lambda: RepeatFirst(n_steps=5), model=model, overrides=SMALL, silent=True) for _ in range(2)
    )
    env = RepeatFirst(n_steps=5)
    observation, _ = env.reset(seed=3)
    for _ in range(4):
        for _ in range(3):
            candidates = asked.top_actions(observation, 2)
        action = alone.compute_action(observation)
        assert candidates[0].action == asked.compute_action(observation) == action
        observation, *_ = env.step({"action": action})


class Dial(gymnasium.Env):
    """Pays for naming the number shown and half of it; numbers are 1 to 4."""

    observation_space = spaces.Dict(shown=spaces.Discrete(4, start=1), rest=spaces.Tuple((spaces.Discrete(2),)))
    action_space = spaces.Tuple((spaces.Discrete(4, start=1), spaces.Dict(half=spaces.Discrete(2, start=1))))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float(self._is_right(action))
        self.t += 1
        return self._seen(), reward, False, self.t == 20, {}

    def _is_right(self, action):
        return action[0] == self.shown and action[1]["half"] == (self.shown + 1) // 2

    def _seen(self):
        self.shown = int(self.np_random.integers(1, 5))
        return {"shown": self.shown, "rest": (0,)}


class BareDial(Dial):
    """The same, shown as it is, named by one number."""

    observation_space = action_space = spaces.Discrete(4, start=1)

    def _is_right(self, action):
        return action == self.shown

    def _seen(self):
        return super()._seen()["shown"]


@pytest.mark.parametrize("cls", [Dial, BareDial])
@pytest.mark.parametrize("with_info", [True, False])
def test_observations_and_actions_are_those_of_the_gymnasium_environment(cls, with_info):
    context = RunContext(env=cls, overrides={"trainer.epoch_length": 3}, seed=1, silent=True)
    context.train(n_epochs=1)
    (episode,) = context.rollout(1).episodes
    env, total, ended = cls(), 0.0, False
    observation, info = env.reset(seed=episode.seed)
    with AgentDeployment.load(context) as agent:
        while not ended:
            given = {"info": info} if with_info else {}
            best = context.top_actions(observation, 1, **given)[0].action
            action = context.compute_action(observation, **given)
            assert env.action_space.contains(action)
            assert agent.act(observation) == action == best == agent.top_actions(1)[0].action
            observation, reward, _, ended, info = env.step(action)
            total += reward
    assert total == episode.total_reward


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        ([np.nan] * 4, "is not finite"),
        ("upright", "is no array"),
        (np.zeros(5), "wrong shape"),
        ({"position": 1}, "other names"),
    ],
)
def test_what_is_no_observation_is_refused(observation, said):
    with pytest.raises(RequestError, match=said):
        RunContext(env="CartPole-v1", silent=True).compute_action(observation)


def test_an_unknown_policy_key_is_refused():
    with pytest.raises(RequestError, match="policy_key names no policy key") as caught:
        RunContext(env="CartPole-v1", silent=True).compute_action(np.zeros(4), policy_key="nope")
    assert caught.value.expected == "'0'"


def test_actions_that_are_numbers_are_refused():
    with pytest.raises(SpaceError, match="cannot be ranked"):
        RunContext(env="Pendulum-v1", silent=True).top_actions(np.zeros(3))


def test_policies_without_probabilities_are_refused():
    from maze_runtime.playing.acting import SingleEnvActor
    from maze_runtime.run.assembly import Assembly

    context = RunContext(env="CartPole-v1", silent=True)
    context._acting = SingleEnvActor(Assembly(context.loaded, context.kernel), policy=object())
    with pytest.raises(RequestError, match="have no probabilities"):
        context.top_actions(np.zeros(4))
