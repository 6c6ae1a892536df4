"""Records of a run: out to JSON, back again, and what damage reads like."""

import json
from pathlib import Path

import pytest

from maze_kernel.config.resolved import plain
from maze_kernel.errors import CheckpointError, FormatError
from maze_runtime.run.directory import FORMAT, Resumption, RunRecord, note_metric, note_resumption, open_run
from maze_runtime.run.provenance import PluginOrigin, SourceTree
from maze_runtime.run.stored_data import from_data, to_data
from maze_runtime.training.checkpoint import LoopState

RECORD = RunRecord(
    format=FORMAT,
    name="a",
    overrides=("seed=3",),
    seeds={"run": 3},
    experiment={"seed": 3, "env": {"use": "x"}},
    packages={"torch": None},
    plugins=(PluginOrigin(name="p", distribution="d", version="1", status="active"),),
    git=SourceTree(commit="abc", dirty=None),
    resumed=(Resumption(epoch=2),),
)


def test_a_record_survives_json():
    assert from_data(json.loads(json.dumps(to_data(RECORD))), RunRecord) == RECORD


def test_keys_of_a_later_version_are_passed_over():
    assert from_data({**to_data(RECORD), "weather": "fine"}, RunRecord) == RECORD


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 5}, "name"),
        ({"seeds": {"run": "3"}}, "seeds"),
        ({"plugins": [{"name": "p"}]}, "plugins"),
        ({"overrides": [1]}, "overrides"),
    ],
)
def test_damage_is_said_with_its_place(tmp_path, change, said):
    (tmp_path / "run.json").write_text(json.dumps({**to_data(RECORD), **change}))
    with pytest.raises(CheckpointError, match=said):
        open_run(tmp_path)


def test_another_format_names_the_version_that_wrote_it(tmp_path):
    record = {"format": 99, "packages": {"maze-kernel": "7.1"}, "everything": "else"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(FormatError, match="format 99") as caught:
        open_run(tmp_path)
    assert "maze-kernel 7.1" in caught.value.help


def test_resumptions_add_up(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(to_data(RECORD)))
    note_resumption(tmp_path, {"seed": 3}, Resumption(epoch=4, overrides=("trainer.n_epochs=9",)))
    record = open_run(tmp_path).record
    assert [entry.epoch for entry in record.resumed] == [2, 4]
    assert record.experiment == {"seed": 3}
    assert record.packages == RECORD.packages


def test_what_selects_the_best_model_is_noted_and_stays_when_the_run_goes_on(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(to_data(RECORD)))
    note_metric(tmp_path, "-train_ImitationEvents/policy_loss")
    note_resumption(tmp_path, {"seed": 3}, Resumption(epoch=4))
    record = open_run(tmp_path).record
    assert (record.metric, record.packages) == ("-train_ImitationEvents/policy_loss", RECORD.packages)
    note_metric(tmp_path, "BaseEnvEvents/reward/mean")
    assert open_run(tmp_path).record.metric == "BaseEnvEvents/reward/mean"


def test_loop_counters_come_back_equal():
    state = LoopState(epoch=4, best_epoch=3, best_metric=0.1 + 0.2, stale_evaluations=1, wall_seconds=1e-17)
    assert from_data(json.loads(json.dumps(to_data(state))), LoopState) == state


def test_plain_data_has_no_null_and_no_tuple():
    assert plain({"a": (1, None, {"b": None, 3: Path("x")})}) == {"a": [1, {"3": "x"}]}
