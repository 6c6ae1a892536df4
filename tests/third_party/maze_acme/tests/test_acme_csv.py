"""Episodes from a table: as they stand there, refused where they are wrong, and learnt from."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from maze_acme.csv_episodes import open_table
from maze_acme.options import CsvEpisodesOptions
from maze_kernel.errors import RequestError
from maze_runtime.datasets.contract import DatasetContext
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_testing.datasets import check_dataset

TABLE = """episode,place.0,place.1,push,reward,terminated,truncated
a,0.5,1,2,1,0,0
a,1.5,2,3,-0.5,1,0
a,2.5,3,,,,
b,9.5,4,4,2,0,1
b,8.5,5,,,,
"""


class Place(FlatEnv):
    structured_spaces = flat_spaces(
        gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(0.0, 10.0, (2,), np.float32)}),
        gymnasium.spaces.Dict({"push": gymnasium.spaces.Discrete(3, start=2)}),
    )

    def close(self):
        return


def opened(path, delimiter=","):
    return open_table(DatasetContext(make_env=Place), CsvEpisodesOptions(path=str(path), delimiter=delimiter))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_the_episodes_are_those_of_the_table(table):
    check_dataset(partial(open_table, options=CsvEpisodesOptions(path=str(table))), Place)
    source = opened(table)
    assert source.lengths == [2, 1]
    first = source.read(0)
    assert first.observation["0"]["place"].tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert first.action["0"]["push"].tolist() == [2, 3]
    assert first.reward.tolist() == [1.0, -0.5]
    assert first.final_observation["place"].tolist() == [2.5, 3.0]
    assert (first.info.terminated, source.infos()[1].truncated) == (True, True)


def test_the_delimiter_is_an_option(table):
    table.write_text(TABLE.replace(",", ";"))
    assert opened(table, ";").lengths == [2, 1]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("1.5,2,3", "1.5,2,x", 3, "'push' is no number"),
        ("1.5,2,3", "1.5,2,7", 3, "'push' lies outside its space"),
        ("9.5,4", "90.5,4", 5, "'place' lies outside its space"),
        ("b,8.5,5,,,,\n", "", 5, "ends without a line"),
    ],
)
def test_a_wrong_line_is_named(table, old, new, line, says):
    table.write_text(TABLE.replace(old, new))
    with pytest.raises(RequestError, match=says) as caught:
        opened(table)
    assert f"table.csv:{line}" in str(caught.value)


def test_a_table_of_another_environment_is_refused(table):
    table.write_text(TABLE.replace("push", "pull"))
    with pytest.raises(RequestError, match="it lacks push"):
        opened(table)


def test_cloning_learns_from_a_table(context_of, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["episode,observation.0,observation.1,observation.2,observation.3,action,reward,terminated,truncated"]
    for episode in range(10):
        for step in range(21):
            x = rng.normal(size=4).clip(-0.4, 0.4).astype(np.float32)
            rest = f"{int(x[2] > 0)},1,0,{int(step == 19)}" if step < 20 else ",,,"
            lines.append(f"{episode},{','.join(map(repr, x.tolist()))},{rest}")
    (tmp_path / "angles.csv").write_text("\n".join(lines) + "\n")
    data = {"use": "acme-csv", "path": str(tmp_path / "angles.csv")}
    bc = {"trainer.demonstrations": data, "trainer.n_epochs": 30, "trainer.batch_size": 20, "trainer.lr": 0.01}
    context_of("bc", **bc).train()
    rows = [line.split(",") for line in (tmp_path / "run" / "statistics" / "train.csv").read_text().splitlines()[1:]]
    accuracies = [float(row[4]) for row in rows if "accuracy" in row[3]]
    assert accuracies[-1] > 0.95
