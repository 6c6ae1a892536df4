"""Lets the tests import `tracked`, which the tests of all trackers share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
