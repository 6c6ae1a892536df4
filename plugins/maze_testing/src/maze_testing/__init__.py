"""For plugin authors: toy environments, a kernel that sees nothing installed, and a conformance suite a component kind.

A suite is a function that builds the component, uses it as Maze would, and raises `ConformanceError` naming the rule
that is broken: `check_env`, `check_transform`, `check_block`, `check_distribution`, `check_trainer`, `check_logger`,
`check_policy`, `check_model`, `check_command`, `check_vector_mode`, `check_dataset`, `check_searcher`, in modules of
those plurals, and the class `WorkerPoolSuite`. Call it from a test of your own.
"""

from __future__ import annotations
