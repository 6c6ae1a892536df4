"""Mistakes in what experiments name of the user's own modules: told in one form, wherever the name stands."""

import re
import sys
from itertools import product
from pathlib import Path

import pytest

MODULES = {
    "own_syntax": "x = 1\ndef f(:\n    pass\n",
    "own_name": "x = 1\ny = undefined_thing\n",
    "own_attribute": "import math\nmath.sinus(1)\n",
    "own_import": "import math\nimport no_such_dependency\n",
    "own_exit": "import sys\nsys.exit(0)\n",
    "own_deep": "import own_name\n",
    "own_good": "class Thing:\n    pass\n\n\nNUMBER = 3\n",
    "own_net": """import torch
class Net(torch.nn.Module):
    def __init__(self, obs_shapes, action_logits_shapes):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, observations):
        return {"action": self.layer(observations["observation"])}
""",
}
FAILING = {
    "own_syntax:Thing": ("SyntaxError: invalid syntax", "own_syntax.py:2"),
    "own_name:Thing": ("NameError: name 'undefined_thing' is not defined", "own_name.py:2"),
    "own_attribute:Thing": ("AttributeError: module 'math' has no attribute 'sinus'", "own_attribute.py:2"),
    "own_import:Thing": ("No module named 'no_such_dependency'", "own_import.py:2"),
    "own_exit:Thing": ("SystemExit: 0", "own_exit.py:2"),
    "own_deep:Thing": ("NameError: name 'undefined_thing' is not defined", "own_name.py:2"),
}
"""Modules that cannot be imported: what is said, and the line of the user's own file."""
ABSENT = {
    "own_nowhere.deep:Thing": ["there is no module own_nowhere", "beside the experiment file"],
    "own_good:Thingg": ["module own_good has no Thingg", "did you mean: own_good:Thing"],
    "own_good:NUMBER": ["own_good:NUMBER is not a class or function", "received: int"],
}
WRONG_FORMS = (":Thing", "own_good.Thing")
DEEPER = ("own_attribute:Thing", "own_deep:Thing")
"""Mistakes that are tried at one place alone."""
MISTAKES = [path for path in (*FAILING, *ABSENT, *WRONG_FORMS) if path not in DEEPER]

GYM = 'env = { use = "gym", id = "CartPole-v1" }\n'
PPO = '[trainer]\nuse = "ppo"\nn_epochs = 1\n'
BC = '[trainer]\nuse = "bc"\nn_epochs = 1\ndemonstrations = { path = "recorded" }\n'
CUSTOM = '[model]\nuse = "custom"\n'
BLOCKS = '[model]\nuse = "concat"\n[model.blocks.observation]\n'
PLACES = {
    "use": f'{GYM}{PPO}[[wrappers]]\nuse = "PATH"\n',
    "strategy": f'{GYM}{PPO}[[wrappers]]\nuse = "observation-normalization"\nstrategy = "PATH"\n',
    "strategy of a key": f'{GYM}{PPO}[[wrappers]]\nuse = "observation-normalization"\n[wrappers.keys]\n'
    'observation = { strategy = "PATH" }\n',
    "plot function": f'{GYM}{PPO}[[wrappers]]\nuse = "observation-visualization"\nplot_function = "PATH"\n',
    "gym": f'env = {{ use = "gym", id = "PATH" }}\n{PPO}',
    "gym-vector": f'env = {{ use = "gym-vector", entry = "PATH" }}\n{PPO}',
    "pettingzoo": f'env = {{ use = "pettingzoo", id = "PATH" }}\n{PPO}',
    "pettingzoo-vector": f'env = {{ use = "pettingzoo-vector", entry = "PATH" }}\n{PPO}',
    "part of an environment": f'{PPO}[env]\nuse = "cutting-2d"\n[env.reward]\nuse = "PATH"\n',
    "optimizer of BC": f'{GYM}{BC}[trainer.optimizer]\nuse = "PATH"\n',
    "optimizer of ES": f'{GYM}[trainer]\nuse = "es"\nn_epochs = 1\noptimizer = {{ use = "PATH" }}\n',
    "processor": f'{GYM}{BC}[trainer.processor]\nuse = "PATH"\n',
    "policy": f'{GYM}{PPO}{CUSTOM}policy = "PATH"\n',
    "critic": f'{GYM}{PPO}{CUSTOM}policy = "own_net:Net"\n[model.critic]\nuse = "PATH"\n',
    "policy of a key": f'{GYM}{PPO}{CUSTOM}[model.policies]\n0 = "PATH"\n',
    "function": f'{GYM}{PPO}{BLOCKS}use = "functional"\nfunction = "PATH"\n',
    "module": f'{GYM}{PPO}{BLOCKS}use = "torch-model"\nmodule = "PATH"\n',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with modules of the user's, and a recording to imitate."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def said(folder, maze, monkeypatch):
    """What a training says that ends because of an import path, which is at the line that holds it."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if not (folder / "recorded").exists():
        recorded = maze("rollout", "CartPole-v1", "--policy", "random", "--episodes", 5, "--record-to", "recorded")
        assert recorded.exit_code == 0, recorded.output

    def train(place, path):
        text = 'name = "own"\nvector = { n_envs = 2 }\nevaluation = { n_episodes = 0 }\n'
        text += PLACES[place].replace("PATH", path)
        Path("own.toml").write_text(text)
        done = maze("train", "own.toml")
        line = 1 + text[: text.index(f'"{path}"')].count("\n")
        assert f"--> own.toml:{line}:" in done.stderr, done.output
        assert "Traceback" not in done.stderr
        assert re.search(r"^  help: .", done.stderr, re.MULTILINE)
        assert done.exit_code == 2
        return done.stderr

    return train


@pytest.mark.parametrize(
    ("place", "path"), [*product(PLACES, MISTAKES), *product(["plot function"], [*DEEPER, "own_good:"])]
)
def test_an_import_path_is_refused_at_its_line(said, place, path, folder):
    message = said(place, path)
    if path in FAILING:
        error, line = FAILING[path]
        assert f"importing {path.partition(':')[0]} failed" in message
        assert f"{error} ({folder / line})" in message
        assert "correct that line" in message
    elif path in ABSENT:
        assert [words for words in ABSENT[path] if words not in message] == []
    else:
        assert path in message
