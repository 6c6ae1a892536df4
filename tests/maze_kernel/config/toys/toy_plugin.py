"""A plugin with one component of most kinds."""

from maze_kernel import hookimpl
from maze_kernel.components import (
    BlockComponent,
    DistributionComponent,
    EnvComponent,
    LoggerComponent,
    ModelComponent,
    TrainerComponent,
    VectorComponent,
    WorkersComponent,
    WrapperComponent,
)

MAZE_PLUGIN_API = 1


@hookimpl
def maze_envs():
    yield EnvComponent(
        name="grid", target="toy_targets:build", options="toy_options:GridOptions", summary="A small grid world."
    )


@hookimpl
def maze_wrappers():
    yield WrapperComponent(name="scale", target="toy_targets:build", options="toy_options:ScaleOptions")
    yield WrapperComponent(name="plain-wrapper", target="toy_targets:PlainWrapper")


@hookimpl
def maze_blocks():
    yield BlockComponent(name="dense", target="toy_targets:build", options="toy_options:DenseOptions")


@hookimpl
def maze_distributions():
    yield DistributionComponent(name="beta", target="toy_targets:no_options")


@hookimpl
def maze_trainers():
    yield TrainerComponent(name="toy", target="toy_targets:build", options="toy_options:ToyTrainerOptions")
    yield TrainerComponent(name="toy-two", target="toy_targets:build", options="toy_options:CommonOptions")


@hookimpl
def maze_loggers():
    yield LoggerComponent(name="paper", target="toy_targets:no_options", default=True)


@hookimpl
def maze_models():
    yield ModelComponent(name="net", target="toy_targets:build", options="toy_options:NetOptions", default=True)


@hookimpl
def maze_vectors():
    yield VectorComponent(
        name="subprocess",
        target="toy_targets:build",
        options="toy_options:VectorModeOptions",
    )
    yield VectorComponent(name="shuffled", target="toy_targets:pool")


@hookimpl
def maze_workers():
    yield WorkersComponent(name="inline", target="toy_targets:pool")
