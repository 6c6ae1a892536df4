"""Helpers that stand beside all tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for aten_handles
