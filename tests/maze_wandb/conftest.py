"""Lets the tests import `tracked`, which the tests of all trackers share, and `wandb_server`."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
