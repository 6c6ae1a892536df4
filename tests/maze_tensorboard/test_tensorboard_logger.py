import io
import os
import re
import tomllib
from collections import Counter
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from PIL import Image, ImageFont
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from maze_drawing.network_drawing import draw
from maze_kernel.config import experiment_from_mapping
from maze_kernel.contracts.logger import EpochRecord, LoggerContext, Outcome
from maze_kernel.contracts.networks import BlockNode, NetworkGraph
from maze_kernel.errors import MazeWarning
from maze_kernel.loader import Kernel
from maze_runtime.training.train import train
from maze_tensorboard import bitmap
from maze_tensorboard.logger import TensorBoardLogger
from maze_tensorboard.options import TensorBoardOptions
from maze_testing.loggers import check_logger


def context(run_dir, resumed_epoch=0):
    return LoggerContext(run_dir=run_dir, name="t", n_epochs=9, max_env_steps=0, resumed_epoch=resumed_epoch)


def record(epoch, value):
    train = {
        "BaseEnvEvents/reward/mean": value,
        "ActionEvents/values": np.arange(5.0),
        "RunEvents/note": f"epoch {epoch}",
    }
    evaluation = {"BaseEnvEvents/reward/mean": -value}
    return EpochRecord(epoch=epoch, env_steps=10 * epoch, wall_seconds=1.0, train=train, evaluation=evaluation)


def read(run_dir):
    accumulator = EventAccumulator(str(run_dir / "tensorboard"), {"scalars": 0, "histograms": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_scalars_histograms_and_texts_are_written(tmp_path):
    logger = TensorBoardLogger(context(tmp_path), TensorBoardOptions())
    logger.write(record(1, 5.0))
    logger.close(Outcome(status="done", reason="all epochs"))
    events = read(tmp_path)
    for tag, value in (("train_BaseEnvEvents/reward/mean", 5.0), ("eval_BaseEnvEvents/reward/mean", -5.0)):
        assert [(e.step, e.value) for e in events.Scalars(tag)] == [(10, value)]
    assert events.Histograms("train_ActionEvents/values")[0].histogram_value.num == 5
    assert any("train_RunEvents/note" in tag for tag in events.Tags()["tensors"])


@pytest.mark.parametrize("x_axis", ["epoch", "env_steps"])
def test_a_resume_leaves_no_point_twice(tmp_path, x_axis):
    options = TensorBoardOptions(x_axis=x_axis)
    first = TensorBoardLogger(context(tmp_path), options)
    for epoch in range(1, 6):
        first.write(record(epoch, float(epoch)))
    first._writer.flush()  # killed here: never closed
    for resumed in (3, 2):
        logger = TensorBoardLogger(context(tmp_path, resumed), options)
        for epoch in range(resumed + 1, 6):
            logger.write(record(epoch, 100.0 + epoch))
        logger._writer.flush()
    scalars = sorted(read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean"), key=lambda event: event.step)
    scale = 1 if x_axis == "epoch" else 10
    assert [(e.step, e.value) for e in scalars] == [
        (1 * scale, 1.0),
        (2 * scale, 2.0),
        (3 * scale, 103.0),
        (4 * scale, 104.0),
        (5 * scale, 105.0),
    ]
    assert max(Counter(e.step for e in read(tmp_path).Histograms("train_ActionEvents/values")).values()) == 1


@pytest.mark.parametrize(("began_with", "goes_on_with"), [("epoch", "env_steps"), ("env_steps", "epoch")])
def test_a_resumed_run_keeps_the_axis_it_began_with(tmp_path, began_with, goes_on_with):
    first = TensorBoardLogger(context(tmp_path), TensorBoardOptions(x_axis=began_with))
    for epoch in (1, 2, 3):
        first.write(record(epoch, 1.0))
    first.close(Outcome(status="interrupted", reason="by a signal"))
    second = TensorBoardLogger(context(tmp_path, 2), TensorBoardOptions(x_axis=goes_on_with))
    second.write(record(3, 1.0))
    second.close(Outcome(status="done", reason="all epochs"))
    scale = 1 if began_with == "epoch" else 10
    # Files of one process and second are read by name, "….9" behind "….10"
    steps = sorted(event.step for event in read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean"))
    assert steps == [1 * scale, 2 * scale, 3 * scale]


def test_epochs_are_the_axis_of_a_trainer_that_takes_no_environment_steps(tmp_path):
    logger = TensorBoardLogger(context(tmp_path), TensorBoardOptions())
    for epoch in (1, 2):
        logger.write(attrs.evolve(record(epoch, 1.0), env_steps=0))
    logger.close(Outcome(status="done", reason="all epochs"))
    assert [event.step for event in read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean")] == [1, 2]


def test_experiment_command_line_and_a_row_of_hyperparameters_are_there_once(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/maze", "train", "a file.toml", "--set", "trainer.n_epochs=2"])
    data = {
        "name": "told",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "trainer": {"use": "ppo", "n_epochs": 2, "epoch_length": 1, "n_rollout_steps": 8},
        "vector": {"n_envs": 2},
        "evaluation": {"n_episodes": 1},
        "loggers": [{"use": "tensorboard"}],
    }
    kernel = Kernel.installed()
    for n_epochs, where in ((2, {"run_dir": tmp_path / "run"}), (3, {"resume": tmp_path / "run"})):
        data["trainer"]["n_epochs"] = n_epochs
        result = train(experiment_from_mapping(data, kernel=kernel), kernel, verbosity=-1, **where)
    events = read(tmp_path / "run")
    texts = {tag: events.Tensors(tag) for tag in events.Tags()["tensors"]}
    (command,) = texts["run/command_line/text_summary"]
    assert command.tensor_proto.string_val[0].decode() == "    maze train 'a file.toml' --set trainer.n_epochs=2"
    (experiment,) = texts["run/experiment/text_summary"]
    toml = "\n".join(line[4:] for line in experiment.tensor_proto.string_val[0].decode().splitlines())
    assert tomllib.loads(toml)["trainer"]["n_rollout_steps"] == 8
    (best,) = events.Scalars("run/best_metric")
    assert best.value == pytest.approx(result.outcome.best_metric)
    row = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    hyperparameters = HParamsPluginData.FromString(row).session_start_info.hparams
    assert hyperparameters["trainer.n_rollout_steps"].number_value == 8
    assert hyperparameters["env.id"].string_value == "CartPole-v1"
    columns = HParamsPluginData.FromString(events.summary_metadata["_hparams_/experiment"].plugin_data.content)
    metrics = {metric.name.tag for metric in columns.experiment.metric_infos}
    assert metrics == {"eval_BaseEnvEvents/reward/mean", "run/best_metric"}
    assert metrics <= set(events.Tags()["scalars"])


@pytest.mark.parametrize(
    ("wrappers", "evaluation", "column"),
    [
        ([], {"n_episodes": 0}, "train_BaseEnvEvents/reward/mean"),
        (["return-normalization"], {"n_episodes": 0}, "train_BaseEnvEvents/raw_reward/mean"),
        ([], {"n_episodes": 1, "metric": "eval_BaseEnvEvents/reward/max"}, "eval_BaseEnvEvents/reward/max"),
    ],
)
def test_what_selects_is_told_as_the_run_measures_it(tmp_path, wrappers, evaluation, column):
    records = []
    data = {
        "name": "told",
        "env": {"use": "gym", "id": "CartPole-v1"},
        "wrappers": wrappers,
        "trainer": {"use": "ppo", "n_epochs": 1, "epoch_length": 1, "n_rollout_steps": 64},
        "vector": {"n_envs": 2},
        "evaluation": evaluation,
        "loggers": [{"use": "tensorboard"}],
    }
    kernel, keeper = Kernel.installed(), SimpleNamespace(write=records.append)
    loaded = experiment_from_mapping(data, kernel=kernel)
    train(loaded, kernel, verbosity=-1, run_dir=tmp_path / "run", extra_loggers=[keeper])
    events = read(tmp_path / "run")
    columns = HParamsPluginData.FromString(events.summary_metadata["_hparams_/experiment"].plugin_data.content)
    assert {metric.name.tag for metric in columns.experiment.metric_infos} == {column, "run/best_metric"}
    split, _, tag = column.partition("_")
    assert records[0].metric == {"train": records[0].train, "eval": records[0].evaluation}[split][tag]
    assert events.Scalars(column)[-1].value == pytest.approx(records[0].metric)


def test_half_an_event_at_the_end_is_dropped(tmp_path):
    logger = TensorBoardLogger(context(tmp_path), TensorBoardOptions())
    for epoch in (1, 2):
        logger.write(record(epoch, float(epoch)))
    logger.close(Outcome(status="failed", reason="killed"))
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes() + b"\x07\x00\x00")
    logger = TensorBoardLogger(context(tmp_path, 2), TensorBoardOptions())
    logger.write(record(3, 3.0))
    logger.close(Outcome(status="done", reason="all epochs"))
    assert sorted(e.value for e in read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean")) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("at", ["a record", "its length"])
def test_a_damaged_file_is_kept_under_another_name(tmp_path, at):
    logger = TensorBoardLogger(context(tmp_path), TensorBoardOptions())
    for epoch in (1, 2, 3):
        logger.write(record(epoch, float(epoch)))
    logger.close(Outcome(status="failed", reason="killed"))
    (path,) = (tmp_path / "tensorboard").iterdir()
    data = bytearray(path.read_bytes())
    second = [tag.start() for tag in re.finditer(b"train_BaseEnvEvents/reward/mean", data)][1]
    begin = end = 0
    while end < second:
        begin, end = end, end + int.from_bytes(data[end : end + 8], "little") + 16
    data[second if at == "a record" else begin] ^= 1
    path.write_bytes(data)
    with pytest.warns(MazeWarning, match=r"left out what is damaged; the file as it was is events\.out\.damaged\."):
        logger = TensorBoardLogger(context(tmp_path, 3), TensorBoardOptions())
    logger.write(record(4, 4.0))
    logger.close(Outcome(status="done", reason="all epochs"))
    (kept,) = (tmp_path / "tensorboard").glob("*damaged*")
    assert kept.read_bytes() == data
    values = [event.value for event in read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean")]
    assert values == ([1.0, 3.0, 4.0] if at == "a record" else [1.0, 4.0])


def test_copied_files_keep_their_order_whatever_their_times_are(tmp_path):
    """Copies have the times of the copying, which may come in any order."""
    for resumed_epoch in (0, 2):
        logger = TensorBoardLogger(context(tmp_path, resumed_epoch), TensorBoardOptions())
        for epoch in (resumed_epoch + 1, resumed_epoch + 2):
            logger.write(record(epoch, float(epoch)))
        logger.close(Outcome(status="interrupted", reason="by SIGINT"))
    first, second = sorted((tmp_path / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    os.utime(first, (2e9, 2e9))
    os.utime(second, (1e9, 1e9))
    TensorBoardLogger(context(tmp_path, 4), TensorBoardOptions()).close(Outcome(status="done", reason="all epochs"))
    assert [e.value for e in read(tmp_path).Scalars("train_BaseEnvEvents/reward/mean")] == [1.0, 2.0, 3.0, 4.0]


def test_the_contract_of_loggers_is_kept(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    check_logger(lambda context: TensorBoardLogger(context, TensorBoardOptions()), run_dir)


def test_pictures_hold_no_letter_that_the_font_lacks():
    font = ImageFont.load_default(size=16)
    missing = bytes(font.getmask("\uffff"))
    assert bytes(font.getmask("×")) == missing, "the font has it now: leave the replacement out"
    for text in ("200 × 2 · 369", "naïve −1 → ж"):
        written = bitmap._writable(text)
        assert all(bytes(font.getmask(letter)) != missing for letter in written if letter != " ")
    assert bitmap._writable("200 × 2 · 369") == "200 x 2 · 369"


def test_a_network_becomes_an_image_with_its_boxes_and_arrows(tmp_path):
    graph = NetworkGraph(
        role="policy",
        policy_key="0",
        blocks=(BlockNode(name="all", kind="Dense", in_keys=("x",), out_keys=("y",), n_parameters=7),),
        shapes={"x": (4,), "y": (2,)},
        inputs=("x",),
        outputs={"action": "y"},
    )
    logger = TensorBoardLogger(context(tmp_path), TensorBoardOptions())
    logger.networks({"policy": graph})
    logger.write(record(1, 5.0))
    logger.close(Outcome(status="done", reason="all epochs"))
    (image,) = read(tmp_path).Images("networks/policy")
    picture = np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
    drawing = draw(graph, "policy")
    assert picture.shape == (round(1.5 * drawing.height), round(1.5 * drawing.width), 3)
    (block,) = [box for box in drawing.boxes if box.shade > 0.6]
    # the block holds all parameters, so its box is in its full shade: white towards #3b82f6
    corner = picture[round(1.5 * (block.y + block.height / 2)), round(1.5 * (block.x + 4))]
    assert corner.tolist() == [round(255 + (part - 255) * block.shade) for part in (0x3B, 0x82, 0xF6)]
    assert drawing.curves
    for curve in drawing.curves:
        x, y = curve.points[-1]
        assert picture[round(1.5 * y) - 3, round(1.5 * x)].tolist() == [91, 100, 114]
