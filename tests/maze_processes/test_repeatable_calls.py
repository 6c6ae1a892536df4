"""Calls that may run twice: made again where an actor was lost, given up where nobody is left."""

import attrs
import pytest

from maze_kernel.errors import MazeWarning, WorkerError
from maze_runtime.workers.repeatable import result_or_again


@attrs.define
class Answer:
    """A future that is done when asked the `done_after`-th time."""

    value: object
    done_after: int = 1

    def done(self):
        self.done_after -= 1
        return self.done_after <= 0

    def result(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def lost(cause="killed"):
    return WorkerError("actor 0 is gone", cause=cause)


def test_an_answer_is_returned_without_a_second_call():
    assert result_or_again(Answer(7), pytest.fail) == 7


@pytest.mark.parametrize("cause", ["exited", "killed", "timeout"])
@pytest.mark.parametrize("done_after", [1, 9], ids=["at once", "later"])
def test_a_call_that_an_actor_took_with_it_is_made_again(cause, done_after):
    with pytest.warns(MazeWarning, match="actor 0 is gone; its replacement begins that again"):
        assert result_or_again(Answer(lost(cause)), lambda: Answer(7, done_after)) == 7


def test_it_is_made_again_as_often_as_actors_die():
    answers = [Answer(lost(), done_after=9), Answer(lost(), done_after=9), Answer(7)]
    with pytest.warns(MazeWarning, match="gone") as told:
        assert result_or_again(Answer(lost()), lambda: answers.pop(0)) == 7
    assert len(told) == 3


@pytest.mark.filterwarnings("error")
def test_where_nobody_is_left_the_cause_is_raised():
    with pytest.raises(WorkerError, match="gone"):
        result_or_again(Answer(lost()), lambda: Answer(lost()))


def test_what_an_actor_raised_is_not_tried_again():
    with pytest.raises(WorkerError):
        result_or_again(Answer(lost("raised")), pytest.fail)
