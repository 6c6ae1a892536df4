"""What Ray's words become: lines of its own processes, and errors in place of answers. No cluster is needed."""

import logging

import pytest
import ray.exceptions

from maze_ray.deaths import classify
from maze_ray.output import print_lines


@pytest.mark.parametrize("source", ["raylet", "autoscaler"])
def test_lines_of_the_cluster_go_to_the_log_and_not_to_the_terminal(source, capfd, caplog):
    with caplog.at_level(logging.INFO, "maze_ray"):
        print_lines({"pid": source, "lines": ["a node is gone"]})
    assert capfd.readouterr() == ("", "")
    assert [record.getMessage() for record in caplog.records] == [f"{source}: a node is gone"]


def test_lines_of_workers_say_whose_they_are(capfd):
    print_lines({"pid": 7, "ip": "192.0.2.3", "actor_name": "actor 3", "lines": ["one", "two"]})
    assert capfd.readouterr().err == "[actor 3, process 7 on 192.0.2.3] one\n[actor 3, process 7 on 192.0.2.3] two\n"


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (ray.exceptions.ActorUnavailableError("no route", None), "lost", "node died or cannot be reached"),
        (ray.exceptions.ObjectReconstructionFailedError("00" * 28, "", ""), "lost", "node died or cannot be reached"),
        (ray.exceptions.NodeDiedError("it died"), "lost", "node died or cannot be reached"),
        (ray.exceptions.OutOfMemoryError("killed due to memory pressure"), "killed", "no memory left"),
        (ray.exceptions.ActorDiedError(), "killed", "was killed or exited"),
        (ray.exceptions.ObjectStoreFullError("full"), "raised", "no place for its answer"),
        (ray.exceptions.RaySystemError("odd"), "lost", "cannot be reached: RaySystemError"),
    ],
)
def test_what_ray_raises_in_place_of_an_answer_has_a_cause(error, cause, words):
    death = classify(error, "")
    assert death.cause == cause
    assert words in death.how
