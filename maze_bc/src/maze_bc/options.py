"""Options of the trainer; their texts feed `maze describe`, the README table and the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs

from maze_kernel.selection import Selection
from maze_kernel.validators import above, all_of, at_least, below, between
from maze_runtime.env.importing import imported
from maze_runtime.training.optimizer_options import OptimizerOptions
from maze_runtime.training.schedules import Schedule, positive_rate
from maze_runtime.training.spellings import SPELLINGS


def _each_positive(_: Any, attribute: Any, numbers: tuple[int, ...]) -> None:
    if any(number < 1 for number in numbers):
        raise ValueError(f"'{attribute.name}' holds numbers >= 1")


def _is_eager(options: Any, attribute: Any, optimizer: OptimizerOptions | None) -> None:
    if optimizer is not None and options.compile:
        raise ValueError(f"'{attribute.name}' is not compiled: leave it out, or set 'compile = false'")


@attrs.frozen(kw_only=True)
class KeepAll:
    """Every decision is learnt from."""

    use: Literal["identity"] = "identity"
    """"identity": all."""


@attrs.frozen(kw_only=True)
class ClipDeadEnds:
    """The end of an episode that the environment ended is not learnt from: it led to where nothing could be mended."""

    use: Literal["clip-dead-ends"] = "clip-dead-ends"
    """"clip-dead-ends"."""
    n_steps: int = attrs.field(validator=at_least(1))
    """Environment steps at the end of every terminated episode that are left out; truncated episodes are kept whole."""


@attrs.frozen(kw_only=True)
class OwnProcessor:
    """A processor by import path."""

    use: str
    """"package.module:name" of a function that takes a recorded episode (`maze_runtime.datasets.contract.Episode`) and returns (T,) bool, the decisions to learn from; or of a class of such callables."""  # noqa: E501
    kwargs: dict[str, Any] = attrs.field(factory=dict)
    """Keyword arguments of the function, or of the constructor."""

    def load(self) -> Any:
        """Import it.

        Raises:
            RequestError: there is none; its module fails.
        """
        return imported(self.use, owner="maze-bc", option="processor.use", known=("identity", "clip-dead-ends"))

    def check_ready(self) -> None:
        """See `maze_runtime.run.before_training.ChecksReadiness.check_ready`."""
        self.load()


ProcessorOptions = KeepAll | ClipDeadEnds | OwnProcessor


@attrs.frozen(kw_only=True)
class BCOptions:
    """Behavioural cloning. Source: Hussein et al. 2017."""

    ALIASES = SPELLINGS

    demonstrations: Annotated[Selection, "dataset"]
    """The episodes to learn from: a table with the `path` of a recording, or another dataset, such as `use = "minari"` with `id`."""  # noqa: E501
    processor: ProcessorOptions = attrs.field(factory=KeepAll)
    """Which decisions of each episode are learnt from and validated on. `{ use = "clip-dead-ends", n_steps = 10 }`: not those of the last 10 environment steps of a terminated episode. `{ use = "my_package.module:function", kwargs = { … } }`: a function of a recorded episode (`maze_runtime.datasets.contract.Episode`), or a class of such callables, says so by (T,) bool."""  # noqa: E501
    n_epochs: int = attrs.field(default=1000, validator=at_least(0))
    """Epochs to train; 0: until patience or the user stops the run. An epoch is one pass over the training episodes, or a part of it: see `eval_every_k_iterations`."""  # noqa: E501
    eval_every_k_iterations: int = attrs.field(default=500, validator=at_least(0))
    """An epoch ends after so many updates, even within a pass: validation, evaluation and selection follow. 0: only at the end of a pass."""  # noqa: E501
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many epochs without a better validation loss; 0: never."""
    device: str = "auto"
    """Where the update runs: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1"."""
    compile: bool = False
    """Compile loss, backward pass, clipping and optimiser step into one function: slow start, fast updates."""
    batch_size: int = attrs.field(default=100, validator=at_least(1))
    """Decisions a minibatch, at most: a pass is cut into minibatches of equal size. Of a policy that carries state: about so many, in whole windows of `sequence_length`."""  # noqa: E501
    sequence_length: int = attrs.field(default=64, validator=at_least(1))
    """Of a policy that carries state: consecutive decisions of an actor that a gradient passes. What came before them in the episode is remembered, not learnt through."""  # noqa: E501
    lr: float | Schedule = attrs.field(default=0.001, validator=positive_rate)
    """Learning rate: a number, or a schedule over `n_epochs`."""
    optimizer: OptimizerOptions | None = attrs.field(default=None, validator=_is_eager)
    """Another optimiser than Adam; `lr` and `max_grad_norm` hold for it, too."""
    adam_epsilon: float = attrs.field(default=1e-8, validator=above(0.0))
    """Adam's epsilon, added to the root of the second moment."""
    max_grad_norm: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Global gradient norm is cut to this; 0: off."""
    loss: Literal["auto", "mse"] = "auto"
    """"auto": negative log-likelihood of the recorded action under the head's own distribution; "mse": for Box heads the squared error of the action that is played without sampling, the distribution's mode, bounded dimensions scaled to -1 ... 1."""  # noqa: E501
    entropy_coef: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Weight of the entropy bonus, which keeps the policy from becoming too sure."""
    top_k: tuple[int, ...] = attrs.field(default=(5,), validator=_each_positive)
    """Of heads that choose the part of the decisions whose recorded option is among the k likeliest, a statistic `top_k_accuracy` for each k; heads of k options or fewer have none."""  # noqa: E501
    bound_margin: float = attrs.field(default=0.001, validator=all_of(at_least(0.0), below(0.5)))
    """Recorded Box actions are learnt no closer to a bound than this part of the width, or than this where the other bound is missing: at the bound itself a squashed distribution has no finite mean. Unused with "mse"."""  # noqa: E501
    validation_percentage: float = attrs.field(default=20.0, validator=between(0.0, 90.0))
    """Percent of the episodes, chosen at random and whole, that are validated on and never learnt from; 0: none, and `[evaluation] metric` or the training loss selects the best model."""  # noqa: E501
    memory_limit_mib: int = attrs.field(default=2048, validator=at_least(1))
    """Episodes that need more memory are streamed: read anew in every pass, in parts of half this size (MiB), each shuffled by itself."""  # noqa: E501
