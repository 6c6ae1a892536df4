"""What Ray's words become: lines of its own processes, and errors in place of answers. No cluster is needed."""

import logging

import pytest
import ray.exceptions

from maze_ray.deaths import classify
from maze_ray.output import print_lines, print_of_client
from maze_runtime.run.log_notes import LogNotes


@pytest.mark.parametrize("source", ["raylet", "autoscaler"])
def test_lines_of_the_cluster_go_to_the_log_and_not_to_the_terminal(source, capfd, caplog):
    with caplog.at_level(logging.INFO, "maze.ray"):
        print_lines({"pid": source, "lines": ["a node is gone"]})
    assert capfd.readouterr() == ("", "")
    assert [record.getMessage() for record in caplog.records] == [f"{source}: a node is gone"]


def test_a_run_keeps_what_workers_and_the_cluster_say():
    notes = []
    with LogNotes(notes.append):
        print_lines({"pid": 7, "ip": "192.0.2.3", "actor_name": "actor 3", "lines": ["one"]})
        print_lines(
            {"pid": 8, "ip": "192.0.2.3", "actor_name": "actor 4", "lines": ["one\x1b[32m [repeated 2x]\x1b[0m"]}
        )
        print_lines({"pid": "raylet", "lines": ["a node is gone"]})
        print_of_client(-1, "\x1b[36m(actor 3 pid=7, ip=192.0.2.3)\x1b[0m two\n")
        print_of_client(-2, "\x1b[36m(raylet)\x1b[0m another one, too\n")
    whose = "[actor 3, process 7 on 192.0.2.3]"
    assert notes == [
        f"{whose} one",
        "[actor 4, process 8 on 192.0.2.3] one [repeated 2x]",
        "raylet: a node is gone",
        "(actor 3 pid=7, ip=192.0.2.3) two",
        "(raylet) another one, too",
    ]


def test_lines_that_come_through_a_proxy_go_where_others_do(capfd):
    print_of_client(-1, "\x1b[36m(actor 3 pid=7)\x1b[0m one\n")
    print_of_client(-2, "\x1b[36m(actor 3 pid=7)\x1b[0m two\n")
    print_of_client(-2, "\x1b[33m(raylet)\x1b[0m a node is gone\n")
    assert capfd.readouterr() == ("(actor 3 pid=7) one\n", "(actor 3 pid=7) two\n")


def test_lines_of_workers_say_whose_they_are(capfd):
    print_lines({"pid": 7, "ip": "192.0.2.3", "actor_name": "actor 3", "lines": ["one", "two"]})
    assert capfd.readouterr().err == "[actor 3, process 7 on 192.0.2.3] one\n[actor 3, process 7 on 192.0.2.3] two\n"


GONE = (
    "The actor died unexpectedly before finishing this task.\nThe actor is dead because its worker process has died. "
    "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. "
    "End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high "
    "memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV."
)


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (ray.exceptions.ActorUnavailableError("no route", None), "lost", "node died or cannot be reached"),
        (ray.exceptions.ObjectReconstructionFailedError("00" * 28, "", ""), "lost", "node died or cannot be reached"),
        (ray.exceptions.NodeDiedError("it died"), "lost", "node died or cannot be reached"),
        (ray.exceptions.OutOfMemoryError("killed due to memory pressure"), "killed", "no memory left"),
        (ray.exceptions.ActorDiedError(), "killed", "was killed or exited"),
        (ray.exceptions.RayActorError(error_msg=GONE), "killed", "was killed or exited"),
        (ray.exceptions.ObjectStoreFullError("full"), "raised", "no place for its answer"),
        (ray.exceptions.RaySystemError("odd"), "lost", "cannot be reached: RaySystemError"),
    ],
)
def test_what_ray_raises_in_place_of_an_answer_has_a_cause(error, cause, words):
    death = classify(error, "")
    assert death.cause == cause
    assert words in death.how
