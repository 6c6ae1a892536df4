"""What a plugin can provide: read this file first when you write one.

A plugin is a module named by an entry point in the group `maze.plugins`. It states the plugin API it was written
for and implements any of the hooks below; each takes no argument and returns an iterable of component records.

    # my_plugin/plugin.py
    from maze_kernel import hookimpl
    from maze_kernel.components import WrapperComponent

    MAZE_PLUGIN_API = 1

    @hookimpl
    def maze_wrappers():
        yield WrapperComponent(name="my-scaling", target="my_plugin.wrappers:Scaling", summary="Scales rewards.")

Keep this module, and the module of options classes, free of torch and gymnasium: every `maze` command imports it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from maze_kernel import components as c

PROJECT_NAME = "maze"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


class MazeHooks:
    """The hooks, one a kind of component."""

    @hookspec
    def maze_envs(self) -> Iterable[c.EnvComponent]:
        """Environments, selected by `[env] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_wrappers(self) -> Iterable[c.WrapperComponent]:
        """Wrappers, selected by `[[wrappers]] use = "..."`; the first one is innermost."""
        raise NotImplementedError

    @hookspec
    def maze_blocks(self) -> Iterable[c.BlockComponent]:
        """Perception blocks, selected by `[model.blocks.NAME] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_distributions(self) -> Iterable[c.DistributionComponent]:
        """Distributions over one action head, selected by `[[model.distributions]] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_trainers(self) -> Iterable[c.TrainerComponent]:
        """Training algorithms, selected by `[trainer] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_loggers(self) -> Iterable[c.LoggerComponent]:
        """Writers of statistics, selected by `[[loggers]] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_models(self) -> Iterable[c.ModelComponent]:
        """Model templates, selected by `[model] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_policies(self) -> Iterable[c.PolicyComponent]:
        """Policies that need no training, selected by `maze rollout --policy NAME`."""
        raise NotImplementedError

    @hookspec
    def maze_workers(self) -> Iterable[c.WorkersComponent]:
        """Worker pools, selected by `[workers] use = "..."`."""
        raise NotImplementedError

    @hookspec
    def maze_searchers(self) -> Iterable[c.SearcherComponent]:
        """Proposers of the next trial of a sweep."""
        raise NotImplementedError
