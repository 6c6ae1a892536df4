"""What a plugin can provide: read this file first when you write one.

A plugin is a module named by an entry point in the group `maze.plugins`. It states the plugin API it was written
for and implements any of the hooks below; each takes no argument and returns an iterable of component records.

Every hook below has an example, which is written as one module `my_plugin` for brevity, with `c` for
`maze_kernel.components`. In earnest only targets name modules that need torch or gymnasium: every `maze` command
imports this one and that of the options classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pluggy

from maze_kernel import components as c

PROJECT_NAME = "maze"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


class MazeHooks(Protocol):
    """The hooks, one a kind of component; a plugin implements those it needs, as functions without `self`."""

    @hookspec
    def maze_envs(self) -> Iterable[c.EnvComponent]:
        """Environments, selected by `[env] use = "..."`.

        ```python
        from gymnasium.spaces import Box, Dict, Discrete
        import numpy as np
        from maze_runtime.env.flat import FlatEnv, flat_spaces

        class Guessing(FlatEnv):
            structured_spaces = flat_spaces(Dict({"observation": Box(0, 1, (1,))}), Dict({"action": Discrete(2)}))

            def reset(self, *, seed=None, options=None):
                return {"observation": np.zeros(1, np.float32)}, {}

            def step(self, action):
                return {"observation": np.zeros(1, np.float32)}, float(action["action"]), True, False, {}

        @hookimpl
        def maze_envs():
            yield c.EnvComponent(name="guessing", target="my_plugin:Guessing", summary="Guess a number.")
        ```
        """

    @hookspec
    def maze_wrappers(self) -> Iterable[c.WrapperComponent]:
        """Wrappers, selected by `[[wrappers]] use = "..."`; the first one is innermost.

        ```python
        from maze_kernel.contracts.transform import Transform

        class HalfReward(Transform):
            def reward(self, reward):
                return reward * 0.5
        @hookimpl
        def maze_wrappers():
            yield c.WrapperComponent(name="half-reward", target="my_plugin:HalfReward", summary="Halves rewards.")
        ```
        """

    @hookspec
    def maze_blocks(self) -> Iterable[c.BlockComponent]:
        """Perception blocks, selected by `[model.blocks.NAME] use = "..."`.

        ```python
        import torch

        class Square(torch.nn.Module):
            def __init__(self, in_keys, out_keys, in_shapes):
                super().__init__()
                self.in_keys, self.out_keys, self.in_shapes = in_keys, out_keys, in_shapes

            def forward(self, inputs):
                return {self.out_keys[0]: inputs[self.in_keys[0]] ** 2}

            def out_shapes(self):
                return self.in_shapes
        @hookimpl
        def maze_blocks():
            yield c.BlockComponent(name="square", target="my_plugin:Square", summary="Squares its input.")
        ```
        """

    @hookspec
    def maze_distributions(self) -> Iterable[c.DistributionComponent]:
        """Distributions over one action head, selected by `[[model.distributions]] use = "..."`.

        ```python
        from maze_distributions.gaussian import DiagonalGaussian
        from maze_distributions.options import GaussianOptions

        def steady(space, *, log_std: float = -1.0):
            return DiagonalGaussian(space, GaussianOptions(initial_log_std=log_std, max_log_std=0.0))
        @hookimpl
        def maze_distributions():
            yield c.DistributionComponent(name="steady", target="my_plugin:steady", summary="Explores little.")
        ```
        """

    @hookspec
    def maze_trainers(self) -> Iterable[c.TrainerComponent]:
        """Training algorithms, selected by `[trainer] use = "..."`.

        ```python
        import attrs
        from maze_ppo.options import PPOOptions

        @attrs.frozen(kw_only=True)
        class WaryOptions(PPOOptions):
            clip_range: float = 0.1  # PPO has 0.2
        @hookimpl
        def maze_trainers():
            yield c.TrainerComponent(name="wary", target="maze_ppo.ppo:make_ppo", options="my_plugin:WaryOptions")
        ```
        """

    @hookspec
    def maze_loggers(self) -> Iterable[c.LoggerComponent]:
        """Writers of statistics, selected by `[[loggers]] use = "..."`.

        ```python
        class Lines:
            def __init__(self, context):
                self.file = context.run_dir / "lines.txt"

            def write(self, record):
                with self.file.open("a") as file:
                    print(record.epoch, record.env_steps, file=file)
        @hookimpl
        def maze_loggers():
            yield c.LoggerComponent(name="lines", target="my_plugin:Lines", summary="One line an epoch.")
        ```
        """

    @hookspec
    def maze_models(self) -> Iterable[c.ModelComponent]:
        """Model templates, selected by `[model] use = "..."`.

        ```python
        from maze_kernel.config.load import select

        def one_layer(context, *, hidden_units: int = 32):
            auto = select(context.catalog, "model", {"use": "auto", "hidden_units": [hidden_units]})
            return context.catalog.build(auto, context)
        @hookimpl
        def maze_models():
            yield c.ModelComponent(name="one-layer", target="my_plugin:one_layer", summary="One layer a network.")
        ```
        """

    @hookspec
    def maze_policies(self) -> Iterable[c.PolicyComponent]:
        """Policies that need no training, selected by `maze rollout --policy NAME`.

        ```python
        import numpy as np
        from maze_runtime.rollout.heuristic import Heuristic

        class AlwaysZero(Heuristic):
            def act_one(self, observation, moment):
                return {head: np.zeros(space.shape, space.dtype) for head, space in moment.action_space.items()}
        @hookimpl
        def maze_policies():
            yield c.PolicyComponent(name="always-zero", target="my_plugin:AlwaysZero", summary="Takes action 0.")
        ```
        """

    @hookspec
    def maze_datasets(self) -> Iterable[c.DatasetComponent]:
        """Sources of recorded episodes, selected by `use = "..."` in a trainer's table `demonstrations`.

        ```python
        import numpy as np
        from maze_runtime.datasets.flat_episodes import EpisodeList, flat_episode
        def standing(context, *, n_episodes: int = 5):
            spaces = context.spaces()
            still = dict(
                observation={name: np.zeros((11, *s.shape), s.dtype) for name, s in spaces.observation["0"].items()},
                action={name: np.zeros((10, *s.shape), s.dtype) for name, s in spaces.action["0"].items()},
                reward=np.zeros(10),
                terminated=np.zeros(10, bool),
                truncated=np.arange(10) == 9,
            )
            episodes = [flat_episode(episode_id=f"standing-{i}", **still) for i in range(n_episodes)]
            return EpisodeList("standing still", spaces, episodes)
        @hookimpl
        def maze_datasets():
            yield c.DatasetComponent(name="standing", target="my_plugin:standing", summary="Nothing is done.")
        ```
        """

    @hookspec
    def maze_workers(self) -> Iterable[c.WorkersComponent]:
        """Worker pools, selected by `[workers] use = "..."`.

        ```python
        from maze_runtime.workers.inline import InlinePool
        from maze_runtime.workers.options import WorkersOptions

        class Here(InlinePool):
            def __init__(self, *, count: int = 1):
                super().__init__(WorkersOptions(count=count))
        @hookimpl
        def maze_workers():
            yield c.WorkersComponent(name="here", target="my_plugin:Here", summary="Actors in this process.")
        ```
        """

    @hookspec
    def maze_vectors(self) -> Iterable[c.VectorComponent]:
        """Ways to step N environments together, selected by `[vector] mode = "..."`.

        ```python
        from maze_runtime.rollout.sequential_vector import SequentialVectorEnv

        class Traced(SequentialVectorEnv):
            def __init__(self, context):
                super().__init__([context.env_factory] * context.n_envs, first_index=context.first_index)

            def step(self, actions):
                print("step")
                return super().step(actions)
        @hookimpl
        def maze_vectors():
            yield c.VectorComponent(name="traced", target="my_plugin:Traced", summary="Says when it steps.")
        ```
        """

    @hookspec
    def maze_searchers(self) -> Iterable[c.SearcherComponent]:
        """Searchers, selected by `[searcher] use = "..."` in the file of a sweep.

        ```python
        from maze_sweeps.searching import ListSearcher

        def first(context, *, n: int = 3):
            leaf = context.space.leaves[0]
            return ListSearcher([{leaf.name: value} for value in leaf.values[:n]])
        @hookimpl
        def maze_searchers():
            yield c.SearcherComponent(name="first", target="my_plugin:first", summary="Tries the first values.")
        ```
        """

    @hookspec
    def maze_presets(self) -> Iterable[c.PresetComponent]:
        """Tables of experiments, laid beneath those that say `preset = "..."`.

        ```python
        PATIENT = {"trainer": {"use": "ppo", "n_epochs": 500, "patience": 50}}
        @hookimpl
        def maze_presets():
            yield c.PresetComponent(name="patient", target="my_plugin:PATIENT", summary="Trains for long.")
        ```
        """

    @hookspec
    def maze_callbacks(self) -> Iterable[c.CallbackComponent]:
        """Callbacks, selected by `[[callbacks]] use = "..."`.

        ```python
        def good_enough(context, *, reward: float = 475.0):
            def on_epoch(run):
                if run.best_metric is not None and run.best_metric >= reward:
                    run.stop("it is good enough")
            return on_epoch
        @hookimpl
        def maze_callbacks():
            yield c.CallbackComponent(name="good-enough", target="my_plugin:good_enough", summary="Stops a good run.")
        ```
        """

    @hookspec
    def maze_commands(self) -> Iterable[c.CommandComponent]:
        """Commands of the command line, called by `maze NAME`.

        ```python
        from typing import Annotated
        import typer

        def greet(name: Annotated[str, typer.Argument(help="Whom to greet.")] = "world"):
            print(f"hello {name}")
        @hookimpl
        def maze_commands():
            yield c.CommandComponent(name="greet", target="my_plugin:greet", summary="Greets somebody.")
        ```
        """
