"""Networks are handed to loggers as graphs: the drawing logger writes pictures, and a failure costs no statistics."""

import attrs
import pytest

from maze_drawing.logger import DrawingLogger
from maze_drawing.options import DrawingOptions
from maze_kernel.contracts.logger import EpochRecord, LoggerContext
from maze_kernel.contracts.networks import BlockNode, NetworkGraph
from maze_runtime.models.graph_building import named_graphs
from maze_runtime.run.fan_out import FanOut
from maze_testing.loggers import check_logger

GRAPH = NetworkGraph(
    role="policy",
    policy_key="0",
    blocks=(BlockNode(name="all", kind="Dense", in_keys=("x",), out_keys=("y",), n_parameters=7),),
    shapes={"x": (4,), "y": (2,)},
    inputs=("x",),
    outputs={"action": "y"},
)
RECORD = EpochRecord(epoch=1, env_steps=10, wall_seconds=1.0, train={"A/x": 1.0})


class Model:
    def __init__(self, *graphs):
        self.graphs = graphs

    def network_graphs(self):
        return self.graphs


class Recorder:
    def __init__(self):
        self.seen = []

    def networks(self, graphs):
        self.seen.append(graphs)

    def write(self, record):
        self.seen.append(record)

    def message(self, text):
        self.seen.append(text)


class CannotDraw(Recorder):
    def networks(self, graphs):
        raise ValueError("no font")


def context(run_dir):
    return LoggerContext(run_dir=run_dir, name="t", n_epochs=9, max_env_steps=0)


def test_one_picture_a_network_in_the_folder_that_was_asked_for(tmp_path):
    critic = attrs.evolve(GRAPH, role="critic")
    DrawingLogger(context(tmp_path), DrawingOptions(folder="pictures")).networks({"policy": GRAPH, "critic": critic})
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"policy.svg", "critic.svg"}
    assert "critic of policy key" in (tmp_path / "pictures" / "critic.svg").read_text()


def test_the_drawing_logger_keeps_the_contract(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    check_logger(lambda context: DrawingLogger(context, DrawingOptions()), run_dir)
    assert (run_dir / "figures" / "policy.svg").exists()


@pytest.mark.parametrize("folder", ["../elsewhere", "/tmp", ""])
def test_pictures_stay_inside_the_run(folder):
    with pytest.raises(ValueError, match="folder"):
        DrawingOptions(folder=folder)


def test_names_are_file_names_and_tell_policy_keys_apart():
    other = attrs.evolve(GRAPH, policy_key="cut it/now")
    assert list(named_graphs(Model(GRAPH, attrs.evolve(GRAPH, role="critic")))) == ["policy", "critic"]
    assert list(named_graphs(Model(GRAPH, other))) == ["policy-0", "policy-cut-it-now"]
    assert named_graphs(object()) == {}


def test_a_logger_that_cannot_draw_still_writes_statistics():
    broken, sound = CannotDraw(), Recorder()
    loggers = FanOut([broken, sound])
    loggers.networks({"policy": GRAPH})
    loggers.write(RECORD)
    said = "logger CannotDraw failed in networks: ValueError: no font"
    assert broken.seen == [said, RECORD]
    assert sound.seen == [said, {"policy": GRAPH}, RECORD]
