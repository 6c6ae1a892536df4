"""Workers that do not share the caller's files: what would be lost or not found there is refused before it runs."""

import pytest

from maze_kernel.errors import RequestError
from maze_runtime.context import RunContext
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.playing.roll_out import RolloutOptions, replay, roll_out

BY_VALUE = {"use": "maze_testing.by_value_pool:ByValuePool", "count": 2}
RECORDING = {"use": "trajectory-recording"}
ES = {"use": "es", "n_epochs": 1, "n_rollouts_per_update": 2}


class Diary(EnvWrapper):
    """Would write one."""

    def __init__(self, env, *, training_only: bool = False):
        super().__init__(env)
        self.folder = None

    def write_below(self, folder):
        self.folder = folder


DIARY = {"use": f"{__name__}:Diary", "training_only": True}


@pytest.fixture
def default_tables():
    return {
        "env": {"use": "maze_testing.vectors:Wanderer"},
        "trainer": {"use": "ppo", "n_rollout_steps": 4, "epoch_length": 1},
        "vector": {"n_envs": 2},
        "workers": BY_VALUE,
    }


def helps(caught):
    return "shared_files = true" in caught.value.help


@pytest.mark.parametrize("what", ["video_dir", "record_dir"])
def test_files_of_rollouts_are_refused(kernel, assemble, tmp_path, what):
    loaded = assemble().loaded
    options = RolloutOptions(n_episodes=2, **{what: tmp_path / "written"})
    with pytest.raises(RequestError, match="do not share") as caught:
        roll_out(loaded, kernel, options)
    assert helps(caught)
    assert "--workers 1" in caught.value.help
    assert not (tmp_path / "written").exists()


def test_this_process_writes_them(kernel, assemble, tmp_path):
    options = RolloutOptions(n_episodes=2, n_workers=1, record_dir=tmp_path / "written")
    episodes = roll_out(assemble().loaded, kernel, options).episodes
    assert [episode.error for episode in episodes] == [None, None]
    with pytest.raises(RequestError, match="recording is read from files") as caught:
        replay(assemble().loaded, kernel, tmp_path / "written", RolloutOptions())
    assert helps(caught)
    replayed = replay(assemble().loaded, kernel, tmp_path / "written", RolloutOptions(n_workers=1))
    assert len(replayed.episodes) == 2


def test_files_of_events_are_written_here_whoever_plays(kernel, assemble, tmp_path):
    loaded = assemble(env={"use": "cutting-2d"}, wrappers=[{"use": "time-limit", "max_episode_steps": 5}]).loaded
    roll_out(loaded, kernel, RolloutOptions(n_episodes=2, events_dir=tmp_path / "events"))
    assert any((tmp_path / "events").iterdir())


def test_a_wrapper_that_writes_files_is_refused_before_training(kernel, assemble):
    with pytest.raises(RequestError, match="TrajectoryRecording writes files") as caught:
        _ = assemble(wrappers=[RECORDING]).spaces
    assert helps(caught)


def test_one_that_writes_while_training_here_is_not(assemble):
    assembly = assemble(wrappers=[DIARY])
    batch = assembly.make_vector_env(2)
    assert assembly.spaces == batch.structured_spaces
    batch.close()


@pytest.mark.parametrize(
    "tables",
    [{"trainer": ES}, {"trainer": {"use": "impala", "num_actors": 2}}, {"vector": {"n_envs": 2, "mode": "workers"}}],
)
def test_one_that_writes_where_workers_train_is(default_tables, assemble, tables):
    default_tables["trainer"] = {}
    assembly = assemble(wrappers=[DIARY], **{"trainer": {"use": "ppo"}, **tables})
    trainer = assembly.make_trainer(assembly.trainer_context())

    def train():
        trainer.start_segment(0)
        trainer.train_epoch()

    with pytest.raises(RequestError, match="Diary writes files") as caught:
        train()
    assert helps(caught)
    trainer.close()


def test_recordings_are_not_read_there(kernel, tmp_path):
    context = RunContext(env="CartPole-v1", overrides={"vector.n_envs": 2}, kernel=kernel, silent=True)
    context.rollout(n_episodes=2, policy="random", record_dir=tmp_path / "recorded")
    trainer = {
        "use": "bc",
        "demonstrations": {"use": "trajectories", "path": str(tmp_path / "recorded")},
        "n_epochs": 1,
    }
    refused = RunContext(
        env="CartPole-v1",
        trainer=trainer,
        overrides={"workers": BY_VALUE},
        run_dir=tmp_path / "run",
        kernel=kernel,
        silent=True,
    )
    with pytest.raises(RequestError, match="recorded episodes are read from files") as caught:
        refused.train()
    assert helps(caught)
    assert "without a [workers] table" in caught.value.help
