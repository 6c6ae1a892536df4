"""What maze-wrappers provides."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import PresetComponent, WrapperComponent

MAZE_PLUGIN_API = 1

_WRAPPERS = (
    # name, module, class, summary
    (
        "observation-normalization",
        "observation_normalization:ObservationNormalization",
        "Shifts and scales observations by estimated, running or given statistics.",
    ),
    ("flatten", "flatten:FlattenObservation", "Joins the dimensions of one observation."),
    ("one-hot", "one_hot:OneHotObservation", "Turns one categorical observation into one-hot vectors."),
    ("resize-img", "resize_img:ResizeImg", "Resizes one image."),
    ("transpose", "transpose:Transpose", "Puts the dimensions of one observation in another order."),
    ("unsqueeze", "unsqueeze:Unsqueeze", "Gives one observation a further dimension of length 1."),
    ("rgb2gray", "rgb2gray:Rgb2Gray", "Turns one colour image grey."),
    (
        "dict-observation",
        "named_spaces:DictObservation",
        "Names the observations of an environment whose spaces are no Dicts.",
    ),
    ("no-dict-observation", "no_dict:NoDictObservation", "Joins all observations to one array."),
    ("dict-action", "named_spaces:DictAction", "Names the actions of an environment whose spaces are no Dicts."),
    ("no-dict-action", "no_dict:NoDictAction", "Joins all actions to one."),
    ("no-dict-spaces", "no_dict:NoDictSpaces", "Joins all observations to one array and all actions to one."),
    ("sorted-spaces", "sorted_spaces:SortedSpaces", "Sorts observations and actions by name."),
    ("observation-stack", "observation_stack:ObservationStack", "Stacks the last observations of every actor."),
    ("split-actions", "split_actions:SplitActions", "Splits a vector of actions into several actions."),
    (
        "discretize-actions",
        "discretize_actions:DiscretizeActions",
        "Turns continuous actions into choices among bins.",
    ),
    ("reward-scaling", "reward_scaling:RewardScaling", "Multiplies rewards by a constant."),
    ("reward-clipping", "reward_clipping:RewardClipping", "Cuts rewards off at a lower and an upper bound."),
    (
        "return-normalization",
        "return_normalization:ReturnNormalization",
        "Divides rewards by the running standard deviation of the discounted return.",
    ),
    ("time-limit", "time_limit:TimeLimit", "Truncates episodes after a number of environment steps."),
    ("random-reset", "random_reset:RandomReset", "Begins episodes with a random number of random steps."),
    ("first-actions", "first_actions:FirstActions", "Begins episodes with given actions."),
    ("life-loss", "life_loss:LifeLoss", "Ends episodes where a life is lost."),
    ("step-skip", "step_skip:StepSkip", "Lets a decision count for several steps of the environment."),
    (
        "log-stats",
        "log_stats:LogStats",
        "Reports rewards and lengths of episodes as they are at its place in the list.",
    ),
    ("monitoring", "monitoring:Monitoring", "Reports and draws distributions of actions, observations and rewards."),
    (
        "observation-visualization",
        "observation_visualization:ObservationVisualization",
        "Draws observations once an epoch.",
    ),
    ("video-recording", "video_recording:VideoRecording", "Writes films of training or rollout episodes."),
)


@hookimpl
def maze_wrappers() -> Iterable[WrapperComponent]:
    """Pre-processing, transforms of observations, actions and rewards, and wrappers of single environments."""
    for name, target, summary in _WRAPPERS:
        options = f"maze_wrappers.options:{target.partition(':')[2]}Options"
        yield WrapperComponent(name=name, target=f"maze_wrappers.{target}", options=options, summary=summary)


@hookimpl
def maze_presets() -> Iterable[PresetComponent]:
    """Wrappers that go together."""
    for name, file, summary in (
        ("vector-obs", "vector_obs", "Observations of numbers, shifted and scaled by running statistics."),
        ("pixel-obs", "pixel_obs", "One colour image: grey, 84 x 84, the last four together."),
        (
            "atari",
            "atari",
            "Games of ale-py as papers play them: four frames a step, grey, 84 x 84, the last four together.",
        ),
        (
            "atari-batch",
            "atari_batch",
            "The same prepared by the native batch of ale-py, without ends at lost lives.",
        ),
        ("mujoco", "mujoco", "Robots of MuJoCo: observations and returns scaled by running statistics."),
        ("scaled", "scaled", "Observations of numbers and returns, scaled by running statistics."),
        (
            "scaled-observations",
            "scaled_observations",
            "Observations of numbers, scaled by running statistics.",
        ),
        (
            "minigrid",
            "minigrid",
            "Worlds of MiniGrid and BabyAI: the view as numbers from 0 to 1, the mission as words.",
        ),
    ):
        yield PresetComponent(name=name, target=f"maze_wrappers.presets:{file}.toml", summary=summary)
