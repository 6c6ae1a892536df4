"""What a trainer may return, and who is named where it returns something else."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from maze_kernel.errors import ComponentError

WRONG = {
    "nothing": (None, "returned NoneType"),
    "a number": (1.0, "returned float"),
    "no tag": ({3: 1.0}, "returned a statistic under 3"),
    "nothing under a tag": ({"Events/loss": None}, "returned None for Events/loss"),
    "a complex number": ({"Events/loss": np.complex64(1j)}, "for Events/loss"),
    "a date": ({"Events/loss": np.datetime64("2020-01-01")}, "for Events/loss"),
    "objects": ({"Events/loss": np.array([None])}, "for Events/loss"),
}


@pytest.fixture
def returning(toy_module, monkeypatch):
    """Lets the toy trainer return something else besides."""

    def change(make):
        train_epoch = toy_module.ToyTrainer.train_epoch
        monkeypatch.setattr(toy_module.ToyTrainer, "train_epoch", lambda self: make(train_epoch(self)))

    return change


class Keeper:
    """A logger that keeps its records."""

    records: ClassVar[list] = []

    def write(self, record):
        self.records.append(record)


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_statistic_is_the_trainers_mistake(case, toy, returning):
    value, what = WRONG[case]
    returning(lambda _: value)
    with pytest.raises(ComponentError) as raised:
        toy.train("a", "trainer.n_epochs=1")
    assert "`train_epoch` of trainer 'toy-trainer'" in raised.value.what
    assert what in raised.value.what
    assert "toy_plugin" in raised.value.owner


def test_tensors_reach_loggers_as_numbers_and_arrays(toy, returning, monkeypatch):
    monkeypatch.setattr(Keeper, "records", [])
    loss = torch.tensor(0.5, requires_grad=True)
    more = {"A/loss": loss, "A/ratios": torch.ones(3, dtype=torch.bfloat16), "A/text": "words", "A/count": np.int64(3)}
    returning(lambda statistics: {**statistics, **more})
    toy.train("a", "trainer.n_epochs=1", tables={"loggers": [Keeper()]})
    (record,) = Keeper.records
    assert record.train["A/loss"] == 0.5
    assert isinstance(record.train["A/loss"], float)
    np.testing.assert_array_equal(record.train["A/ratios"], np.ones(3, np.float32))
    assert (record.train["A/text"], record.train["A/count"]) == ("words", 3)


@pytest.mark.parametrize("value", [np.float32(2.5), np.array(2.5, np.float16), torch.tensor(2.5, dtype=torch.bfloat16)])
def test_one_number_of_any_kind_reaches_every_logger_as_one_of_pythons(value, toy, returning, monkeypatch):
    monkeypatch.setattr(Keeper, "records", [])
    returning(lambda statistics: {**statistics, "A/loss": value, "A/flag": np.bool_(True), "A/agrees": False})
    toy.train("a", "trainer.n_epochs=1", tables={"loggers": [Keeper(), {"use": "csv"}]})
    (record,) = Keeper.records
    found = [record.train[f"A/{name}"] for name in ("loss", "flag", "agrees")]
    assert found == [2.5, 1, 0]
    assert [type(one) for one in found] == [float, int, int]
    (file,) = (toy.folder / "a").rglob("train.csv")
    rows = file.read_text().splitlines()
    assert [row.split(",")[-1] for row in rows if "A/flag" in row] == ["1"]
