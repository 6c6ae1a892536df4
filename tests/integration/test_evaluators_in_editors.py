"""What an editor is told about evaluators by the JSON Schema."""

import copy

import jsonschema

from maze_kernel.config import schema

GYM = {"use": "gym", "id": "CartPole-v1"}
EXPERIMENT = {
    "name": "small",
    "env": GYM,
    "trainer": {"use": "ppo"},
    "evaluation": {
        "env": GYM,
        "wrappers": [{"use": "time-limit", "max_episode_steps": 5}],
        "evaluators": {"hard": {"n_episodes": 2, "env": GYM, "wrappers": []}},
    },
}


def test_editors_know_the_tables_of_evaluators(kernel):
    validator = jsonschema.Draft202012Validator(schema(kernel))
    validator.validate(EXPERIMENT)
    for table in (lambda data: data["evaluation"]["env"], lambda data: data["evaluation"]["evaluators"]["hard"]["env"]):
        wrong = copy.deepcopy(EXPERIMENT)
        table(wrong)["idd"] = 1
        assert list(validator.iter_errors(wrong))
