"""Ids whose package is not imported: the message names it."""

import gymnasium
import pytest

from maze_gym.known_packages import how_to_get, package_of

IDS = {
    "ALE/Pong-v5": "ale-py",
    "PongNoFrameskip-v4": "ale-py",
    "Breakout-v4": "ale-py",
    "MiniGrid-Empty-5x5-v0": "minigrid",
    "BabyAI-GoToRedBall-v0": "minigrid",
    "highway-fast-v0": "highway-env",
    "u-turn-v0": "highway-env",
    "FetchReach-v4": "gymnasium-robotics",
    "popgym-RepeatFirstEasy-v0": "popgym",
    "stocks-v0": "gym-anytrading",
    "mobile-small-central-v0": "mobile-env",
    "rware-tiny-2ag-v2": "rware",
    "Foraging-8x8-2p-1f-v3": "lbforaging",
}


@pytest.mark.parametrize("env_id", IDS)
def test_known_families(env_id):
    assert package_of(env_id) == IDS[env_id]
    help_text = how_to_get(env_id)
    assert f"pip install {IDS[env_id]}," in help_text
    assert f':{env_id}"' in help_text


def test_an_installed_package_registers_what_is_said_of_it():
    for env_id, package in IDS.items():
        try:
            __import__(package.replace("-", "_"))
        except ImportError:
            continue
        assert env_id in gymnasium.registry, env_id


def test_gymnasiums_own_ids_are_nobody_elses():
    own = [env_id for env_id, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("gymnasium.envs")]
    assert len(own) > 20
    assert [env_id for env_id in own if package_of(env_id)] == []
    assert how_to_get("Nothing-v0") is None
