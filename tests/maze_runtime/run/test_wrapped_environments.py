"""What a wrapper makes is looked at before anybody asks it for spaces."""

import pytest

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import EnvError
from maze_runtime.run.assembly import Assembly

EXPERIMENT = {"name": "wrapped", "env": {"use": "gym", "id": "CartPole-v1"}, "trainer": {"use": "ppo"}}


class Forgetful:
    """Keeps nothing of the environment."""

    def __init__(self, env):
        pass


def nothing(env):
    return None


@pytest.mark.parametrize("name", ["Forgetful", "nothing"])
def test_a_wrapper_that_makes_no_environment_is_named(name):
    wrapper = f"{__name__}:{name}"
    loaded = experiment_from_mapping(EXPERIMENT | {"wrappers": [{"use": wrapper}]}, kernel=None)
    with pytest.raises(EnvError, match="what the wrapper makes is no StructuredEnv") as caught:
        _ = Assembly(loaded, loaded.kernel).spaces
    assert caught.value.owner
    assert caught.value.owner != "maze-runtime"
