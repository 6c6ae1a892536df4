"""Several seeds of an experiment on the cluster: whole runs in actors, and actors that have actors of their own."""

import threading
import time

import pytest
import torch

from maze_kernel.config import experiment_from_mapping
from maze_kernel.errors import RequestError
from maze_runtime.series.series import SeriesOptions, resume_series, train_series

PPO = {"use": "ppo", "epoch_length": 1, "n_rollout_steps": 16, "batch_size": 16, "patience": 0}
IMPALA = {
    "use": "impala",
    "epoch_length": 2,
    "num_actors": 2,
    "n_rollout_steps": 8,
    "actors_batch_size": 2,
    "patience": 0,
    "deterministic": True,
}
SECONDS_TO_BEGIN = 200.0
PAIR = SeriesOptions(n_parallel=2)


@pytest.fixture
def load(kernel):
    def build(workers, trainer=PPO, n_epochs=2):
        tables = {
            "name": "series",
            "env": {"use": "gym", "id": "CartPole-v1"},
            "vector": {"n_envs": 2},
            "workers": workers,
            "trainer": {**trainer, "n_epochs": n_epochs},
            "evaluation": {"n_episodes": 0},
            "checkpoint": {"every_epochs": 1},
        }
        return experiment_from_mapping(tables, kernel=kernel)

    return build


@pytest.fixture
def one_thread():
    """As many threads as workers have, so that sums are added up in the same order."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def weights(series, seed, epoch=2):
    return (series / f"seed-{seed}" / "checkpoints" / f"epoch-{epoch:06d}" / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [PPO, IMPALA], ids=["ppo", "impala"])
def test_seeds_learn_as_in_subprocesses(load, on_ray, tmp_path, one_thread, trainer):
    """Those of IMPALA have actors of their own on the cluster."""
    found = {}
    for workers in (on_ray(count=2, cpus_per_worker=0.5), {"use": "subprocess", "count": 2}):
        series = tmp_path / workers["use"]
        result = train_series(load(workers, trainer), [3, 4], path=series, options=PAIR)
        assert result.is_complete, [seed.error for seed in result.seeds]
        found[workers["use"]] = [weights(series, seed) for seed in (3, 4)]
    assert found["ray"] == found["subprocess"]
    assert found["ray"][0] != found["ray"][1]


@pytest.mark.slow
def test_a_sweep_comes_to_what_it_comes_to_in_subprocesses(load, on_ray, tmp_path):
    from maze_sweeps import sweep

    loaded = load(None, n_epochs=1)
    found = {}
    for workers in (on_ray(count=2, cpus_per_worker=0.5), {"use": "subprocess", "count": 2}):
        mapping = {
            "n_trials": 3,
            "metric": "train_BaseEnvEvents/reward/mean",
            "searcher": {"use": "grid"},
            "workers": workers,
            "space": {"trainer": {"lr": {"values": [1e-4, 1e-3, 1e-2]}}},
        }
        result = sweep(mapping, experiment=loaded, out=tmp_path / workers["use"], silent=True)
        assert [trial.state for trial in result.trials] == ["done"] * 3
        folder = tmp_path / workers["use"]
        assert (folder / "table.csv").read_text().count("done") == 3
        found[workers["use"]] = [weights(folder / "trials" / f"000{number}", 1, epoch=1) for number in range(3)]
    assert found["ray"] == found["subprocess"]


def test_runs_whose_workers_would_find_no_place_are_refused_before_anything_starts(load, on_ray, tmp_path):
    with pytest.raises(RequestError, match="2 runs at a time with 2 workers each") as caught:
        train_series(load(on_ray(count=2), IMPALA), [0, 1, 2], path=tmp_path / "series", options=PAIR)
    assert "6 CPU" in caught.value.expected
    assert "--parallel" in caught.value.help
    assert not (tmp_path / "series").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_that_dies_fails_its_seed_and_a_resume_finishes_it(load, on_ray, end_node, groups, cluster, tmp_path):
    series, n_epochs = tmp_path / "series", 200
    loaded = load(on_ray(count=1, cpus_per_worker=0.5), n_epochs=n_epochs)
    options = SeriesOptions(n_parallel=3)

    def end_when_it_trains():
        deadline = time.monotonic() + SECONDS_TO_BEGIN
        index = None
        while time.monotonic() < deadline:
            if index is None and groups:  # seed i is trained by actor i
                homes = [actor._node[1] for actor in groups[-1]._actors]
                away = [index for index, home in enumerate(homes) if home not in ("", cluster.head_node.node_id)]
                index = away[0] if all(homes) else None
            elif index is not None and list(series.glob(f"seed-{index}/checkpoints/epoch-*")):
                break
            time.sleep(0.01)
        end_node(index)

    killer = threading.Thread(target=end_when_it_trains)
    killer.start()
    result = train_series(loaded, [0, 1, 2], path=series, options=options)
    killer.join()
    failed = [seed for seed in result.seeds if seed.status == "failed"]
    assert 1 <= len(failed) <= 2
    assert all("node" in seed.error.what for seed in failed)
    assert {seed.status for seed in result.seeds} == {"failed", "done"}
    again = resume_series(series, options=options)
    assert again.is_complete, [seed.error for seed in again.seeds]
    assert all(weights(series, seed, n_epochs) for seed in (0, 1, 2))
