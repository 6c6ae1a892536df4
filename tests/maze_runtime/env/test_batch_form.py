"""What a natively batched environment returns is looked at before anybody computes with it."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.vector import FinalObservation, Group, Tick
from maze_kernel.errors import EnvError
from maze_runtime.env.batch_form import require_batch
from maze_runtime.env.batch_guard import BatchGuard
from maze_runtime.env.flat import flat_spaces

SPACES = flat_spaces(spaces.Dict(state=spaces.Box(-9, 9, (2,), np.float32)), spaces.Dict(action=spaces.Discrete(2)))
N = 3


class Batch:
    """Episodes of four steps, cut, whose last observations are kept; `spoil` changes each tick of `step`."""

    n_envs, structured_spaces = N, SPACES

    def __init__(self, spoil=lambda tick: tick):
        self.spoil = spoil

    def reset(self, seeds):
        self.t = 0
        return self.tick()

    def step(self, actions):
        self.t += 1
        return self.spoil(self.tick())

    def tick(self):
        group = Group(np.arange(N), np.zeros(N, np.int64), {"state": np.zeros((N, 2), np.float32)})
        flags = np.zeros((2, N), bool)
        flags[1] = self.t % 4 == 3 and np.arange(N) < 2
        tick = Tick({"0": group}, np.zeros(N, np.float32), *flags)
        if flags.any():
            tick.final_observation["0"] = FinalObservation(np.arange(2), {"state": np.ones((2, 2), np.float32)})
        return tick


def changed(**changes):
    def spoil(tick):
        for name, change in changes.items():
            setattr(tick, name, change(getattr(tick, name)))
        return tick

    return spoil


def of_group(change):
    def spoil(tick):
        change(tick.groups["0"])
        return tick

    return spoil


def of_final(change):
    def spoil(tick):
        for final in tick.final_observation.values():
            change(final)
        return tick

    return spoil


def reversed_rows(group):
    group.env_index = group.env_index[::-1]


def all_rows(final):
    final.observation = {"state": np.zeros((N, 2), np.float32)}


def elsewhere(final):
    final.env_index = final.env_index + 7


def play(batch, n_steps=8):
    for _ in range(n_steps):
        batch.step({"0": {"action": np.zeros(N, np.int64)}})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (changed(reward=lambda reward: reward[:1]), "reward has another form"),
        (changed(reward=lambda reward: reward[:, None]), "reward has another form"),
        (changed(reward=lambda reward: np.float32(0)), "reward has another form"),
        (changed(reward=list), "reward has another form"),
        (changed(terminated=lambda flags: flags.astype(int)), "terminated has another form"),
        (changed(truncated=lambda flags: flags.any()), "truncated has another form"),
        (changed(final_observation=lambda _final: {}), "the final observations are of other environments"),
        (of_final(all_rows), "the final observation 'state' has another form"),
        (of_final(elsewhere), "the final observations are of other environments"),
        (of_group(reversed_rows), "env_index does not rise"),
        (of_group(lambda group: group.observation.clear()), "the observation lacks the key 'state'"),
        (
            of_group(lambda group: group.observation.update(state=np.zeros((N, 2)))),
            "the observation 'state' has another",
        ),
        (
            of_group(lambda group: group.observation.update(state=np.zeros(2, np.float32))),
            "the observation 'state' has",
        ),
        (changed(groups=lambda groups: {"x": groups["0"]}), "unknown policy key"),
        (lambda _tick: None, "it is no Tick"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_owner_of_the_environment(spoil, said):
    batch = BatchGuard(Batch(spoil), "hover 1.0")
    batch.reset([[0]] * N)
    with pytest.raises(EnvError, match=said) as caught:
        play(batch)
    assert caught.value.owner == "hover 1.0"


def test_rewards_and_flags_are_looked_at_in_every_step():
    inner = Batch()
    batch = BatchGuard(inner, "hover 1.0")
    batch.reset([[0]] * N)
    play(batch, 20)
    inner.spoil = changed(reward=lambda reward: reward[:1])
    with pytest.raises(EnvError, match="reward has another form"):
        play(batch, 1)


def test_what_a_batch_raises_is_said_of_its_owner():
    def fail(_tick):
        raise ValueError("broken")

    batch = BatchGuard(Batch(fail), "hover 1.0")
    batch.reset([[0]] * N)
    with pytest.raises(EnvError, match="its step raised ValueError: broken") as caught:
        play(batch, 1)
    assert caught.value.owner == "hover 1.0"
    assert "in fail" in caught.value.user_traceback


def test_a_batch_of_another_size_or_with_other_spaces_is_refused():
    require_batch(Batch(), N, SPACES, "hover 1.0")
    with pytest.raises(EnvError, match="another number of environments"):
        require_batch(Batch(), N + 1, SPACES, "hover 1.0")
    other = flat_spaces(spaces.Dict(state=spaces.Box(-9, 9, (3,), np.float32)), SPACES.action["0"])
    with pytest.raises(EnvError, match="another observation space"):
        require_batch(Batch(), N, other, "hover 1.0")
