"""The package of a third party, as if it were installed: its own tests run here, too."""

import sys
from pathlib import Path

_SOURCES = str(Path(__file__).parent / "maze_acme" / "src")
if _SOURCES not in sys.path:
    sys.path.insert(0, _SOURCES)
