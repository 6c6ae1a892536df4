"""What is logged below the logger `maze` while a run goes on is in its notes, and nowhere it was not before."""

import logging

from maze_runtime.run.log_notes import LOGGER, LogNotes


def test_records_are_notes_while_a_run_goes_on(capfd):
    before, own, inner = logging.getLogger("maze.cluster"), [], []
    before.info("too early")
    with LogNotes(own.append):
        before.info("a node %s", "died")
        with LogNotes(inner.append):
            before.debug("for both")
        before.debug("for one")
    before.info("too late")
    assert own == ["a node died", "for both", "for one"]
    assert inner == ["for both"]
    assert (LOGGER.handlers, LOGGER.level) == ([], logging.NOTSET)
    assert capfd.readouterr() == ("", "")
