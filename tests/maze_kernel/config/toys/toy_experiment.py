"""A valid experiment that uses every table and most types of option."""

FULL = {
    "name": "fuzz",
    "seed": 3,
    "env": {"use": "grid", "size": 7, "goal": [1, 2], "extra": {"a": [1, {"b": 2.5}], "c": "d"}},
    "wrappers": [{"use": "scale", "n": 2.0, "keys": ["a"]}, {"use": "plain-wrapper", "strength": 1.5}],
    "model": {
        "use": "net",
        "blocks": {"feature": {"use": "dense", "hidden_units": [8, 8], "non_lin": "tanh"}},
        "critic": {"use": "toy_targets:WithOptions", "hidden_units": [3]},
        "heads": [{"space": "Box", "distribution": {"use": "beta"}}],
    },
    "trainer": {
        "use": "toy",
        "lr": {"start": 1.0, "shape": "cosine"},
        "clip_range": 0.2,
        "colour": "blue",
        "weights": {"policy": 1.0},
        "tags": ["a", "b"],
        "n_epochs": 4,
    },
    "vector": {"n_envs": 4, "mode": "subprocess"},
    "evaluation": {"n_episodes": 2, "deterministic": False},
    "checkpoint": {"every_epochs": 3},
    "workers": {"use": "toy_targets:pool", "count": 4},
    "loggers": [{"use": "paper"}],
    "plugins": {"require": ["toy_plugin"]},
}
