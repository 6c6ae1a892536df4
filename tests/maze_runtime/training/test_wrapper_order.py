"""A wrapper that keeps statistics must see the whole batch; a limit may hold in training alone."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_kernel.loader import Kernel
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.run.assembly import Assembly

NORMALIZATION, LIMIT = {"use": "observation-normalization"}, {"use": "time-limit", "max_episode_steps": 9}


class Cut(EnvWrapper):
    """Ends episodes after 9 steps; its options are keyword-only parameters."""

    def __init__(self, env, *, training_only: bool = False):
        super().__init__(env)

    def reset(self, **arguments):
        self.n_steps = 0
        return self.env.reset(**arguments)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.n_steps += 1
        return observation, reward, terminated, truncated or self.n_steps == 9, info


def assemble(*wrappers):
    kernel = Kernel.installed()
    data = {
        "name": "order",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "ppo"},
        "wrappers": list(wrappers),
    }
    return Assembly(experiment_from_mapping(data, kernel=kernel), kernel)


def test_statistics_inside_an_env_wrapper_are_refused_with_the_way_out():
    with pytest.raises(RequestError, match="observation-normalization") as refusal:
        assemble(NORMALIZATION, LIMIT)
    assert "behind 'time-limit'" in refusal.value.help


def test_statistics_outside_of_it_are_shared_by_the_batch():
    assert len(assemble(LIMIT, NORMALIZATION).transforms) == 1


@pytest.mark.parametrize("wrapper", [LIMIT, {"use": f"{__name__}:Cut"}], ids=["options-class", "keyword-only"])
@pytest.mark.parametrize(("training_only", "limited"), [(False, True), (True, False)])
def test_a_limit_of_the_training_is_not_one_of_the_evaluation(wrapper, training_only, limited):
    assembly = assemble({**wrapper, "training_only": training_only})
    lengths = []
    for training in (True, False):
        env = assembly.env_factory(training=training)()
        env.reset(seed=0)
        ended = [any(env.step({"action": step % 2})[2:4]) for step in range(12)]
        lengths.append(ended.index(True) + 1 if any(ended) else None)
        env.close()
    assert lengths == [9, 9 if limited else None]
