"""The pages of the Python API: which names and modules they show. `docs/generate.py` writes them.

Sphinx takes signatures and texts from the docstrings when the pages are built; what is here is only the order.
"""

from __future__ import annotations

SUITE = {
    "Train, play, act": ["RunContext", "train", "roll_out", "RolloutOptions", "load_experiment", "load_series"],
    "Deploy": ["AgentDeployment", "export_policy"],
    "Environments": [
        "FlatEnv",
        "flat_spaces",
        "StructuredEnv",
        "StructuredSpaces",
        "CoreEnv",
        "MazeEnv",
        "ObservationConversion",
        "ActionConversion",
        "EnvWrapper",
        "Transform",
        "to_gymnasium",
    ],
    "Recorded episodes": ["TrajectoryDataset"],
    "Plugins and errors": ["Kernel", "hookimpl", "MazeError"],
}
"""Heading to the names of `maze_suite` below it; names that stand nowhere come at the end."""

MODULES = {
    "runs": (
        "Runs and their results",
        "What the functions of [The public names](suite.md) return and raise, and experiments as data.",
        [
            "maze_runtime.training.train",
            "maze_runtime.training.training_run",
            "maze_runtime.playing.roll_out",
            "maze_runtime.training.checkpoint_store",
            "maze_kernel.config",
            "maze_kernel.config.load",
            "maze_kernel.config.experiment",
            "maze_deployment.agent",
            "maze_reports.series",
        ],
    ),
    "contracts": (
        "Contracts",
        "What plugins are to each other: protocols and records of `maze_kernel.contracts`. None needs torch. "
        "Shapes are in the letters of [Notation](../notation.md).",
        [
            f"maze_kernel.contracts.{name}"
            for name in (
                "env",
                "transform",
                "vector",
                "model",
                "trainer",
                "logger",
                "workers",
                "events",
                "networks",
                "capabilities",
            )
        ],
    ),
    "plugins": (
        "Plugins, options, errors",
        "What a `plugin.py` and an options class import, and how programs ask for what is installed. "
        "[A plugin in fifteen minutes](../reference/plugin-authoring.md) shows them at work, "
        "[Hooks](../reference/hooks.md) has the hooks.",
        [
            "maze_kernel.components",
            "maze_kernel.selection",
            "maze_kernel.validators",
            "maze_kernel.errors",
            "maze_kernel.loader",
            "maze_kernel.catalog",
        ],
    ),
    "environments": (
        "Environments, events, wrappers",
        "For simulations with states, events and KPIs, and for what stands around them.",
        [
            "maze_runtime.env.flat",
            "maze_runtime.env.core_env",
            "maze_runtime.env.maze_env",
            "maze_runtime.env.conversion",
            "maze_runtime.env.reward",
            "maze_runtime.env.renderer",
            "maze_runtime.env.wrapper",
            "maze_pettingzoo.batch_of_games",
            "maze_runtime.events.declaration",
            "maze_runtime.events.pubsub",
            "maze_runtime.events.kpi",
        ],
    ),
    "training": (
        "For authors of trainers",
        "Rollouts, advantages, replay, gradient steps and schedules, for an algorithm of your own. "
        "[Write a trainer](../how-to/write-a-trainer.md) puts them together.",
        [
            "maze_runtime.training.loop_options",
            "maze_runtime.training.schedules",
            "maze_runtime.training.counters",
            "maze_runtime.training.gradient_step",
            "maze_runtime.training.spellings",
            "maze_runtime.rollout.collector",
            "maze_runtime.rollout.buffer",
            "maze_runtime.rollout.advantages",
            "maze_runtime.rollout.successors",
            "maze_runtime.rollout.episode_statistics",
            "maze_runtime.rollout.epsilon_greedy",
            "maze_replay.collector",
            "maze_replay.replay",
            "maze_replay.transitions",
            "maze_replay.series",
        ],
    ),
    "networks": (
        "Blocks, models, policies",
        "Networks as graphs of blocks, and what acts with them.",
        [
            "maze_perception.block",
            "maze_perception.shape_normalization",
            "maze_perception.graph",
            "maze_perception.inference",
            "maze_runtime.models.actor_critic",
            "maze_runtime.models.same_operations",
            "maze_runtime.models.two_at_once",
            "maze_runtime.models.known_derivatives",
            "maze_runtime.models.network_policy",
            "maze_runtime.models.policy_wrapper",
            "maze_runtime.models.target_network",
            "maze_runtime.models.masking",
            "maze_runtime.models.device",
            "maze_runtime.rollout.rule_policy",
        ],
    ),
    "data": (
        "Recorded episodes",
        "Sources of episodes, and their transitions.",
        [
            "maze_runtime.datasets.contract",
            "maze_runtime.datasets.flat_episodes",
            "maze_runtime.datasets.transitions",
            "maze_trajectories.dataset",
        ],
    ),
    "testing": (
        "Suites for tests",
        "`maze-testing` for your extra `test`: one suite a kind of component, and environments to try things on.",
        [
            f"maze_testing.{name}"
            for name in (
                "envs",
                "wrappers",
                "transforms",
                "blocks",
                "distributions",
                "models",
                "policies",
                "datasets",
                "trainers",
                "loggers",
                "vectors",
                "workers",
                "by_value_pool",
                "fixtures",
                "environments",
                "structured_environments",
            )
        ],
    ),
}
"""File to its title, its first sentence, and the modules it shows with every public name."""


def api_pages() -> dict[str, str]:
    """File name to Markdown, of every page of the API."""
    return {"suite.md": suite_page(), **{f"{name}.md": module_page(*page) for name, page in MODULES.items()}}


def suite_page() -> str:
    """Every name of `maze_suite`, below its heading."""
    import maze_suite

    named = {name for names in SUITE.values() for name in names}
    more = [name for name in maze_suite.__all__ if name not in named]
    groups = SUITE | ({"More": more} if more else {})
    parts = [
        "# The public names\n",
        "`from maze_suite import NAME` takes each of them from the distribution that defines it.\n",
    ]
    for heading, names in groups.items():
        parts.append(f"## {heading}\n")
        parts += [_suite_entry(name) for name in names]
    return "\n".join(parts)


def _suite_entry(name: str) -> str:
    import maze_suite

    value = getattr(maze_suite, name)
    if isinstance(value, type):
        return _directive(f".. autoclass:: maze_suite.{name}", ":members:", ":undoc-members:")
    kind = "autofunction" if hasattr(value, "__code__") else "autodata"
    return _directive(f".. {kind}:: maze_suite.{name}", *([":no-value:"] if kind == "autodata" else []))


def module_page(title: str, about: str, modules: list[str]) -> str:
    """A page with a section for each module."""
    parts = [f"# {title}\n", f"{about}\n"]
    for module in modules:
        parts += [f"## {module}\n", _directive(f".. automodule:: {module}", ":members:", ":undoc-members:")]
    return "\n".join(parts)


def _directive(line: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", line, *(f"   {option}" for option in options), "```\n"])
