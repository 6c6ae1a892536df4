"""An exported file acts like the policy it was made of, in a process that knows nothing of Maze."""

import errno
import json
import os
import subprocess
import sys

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from typer.testing import CliRunner

from maze_deployment import onnx_file
from maze_deployment.export import TOLERANCE, export_checkpoint, export_policy
from maze_deployment.random_observations import random_observations
from maze_kernel.cli.app import make_app
from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import MazeError, RequestError
from maze_kernel.loader import Kernel
from maze_runtime.context import RunContext
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.models.network_policy import NetworkPolicy
from maze_runtime.playing.players import load_weights, weights_of
from maze_runtime.run.assembly import Assembly
from maze_runtime.training.checkpoint import Checkpoint

N = 1000
RUN_ONNX = """
import sys, numpy as np, onnxruntime
file, observations, out = sys.argv[1:]
session = onnxruntime.InferenceSession(file)
names = [value.name for value in session.get_outputs()]
results = session.run(None, dict(np.load(observations)))
assert not [name for name in sys.modules if name.startswith("maze") or name == "torch"]
np.savez(out, **dict(zip(names, results)))
"""
RUN_TORCH = """
import sys, numpy as np, torch
file, observations, out = sys.argv[1:]
program = torch.export.load(file).module()
actions, logits = program({name: torch.from_numpy(array) for name, array in np.load(observations).items()})
assert not [name for name in sys.modules if name.startswith("maze")]
results = {f"actions.{name}": value for name, value in actions.items()}
results |= {f"logits.{name}": value for name, value in logits.items()}
np.savez(out, **{name: value.numpy() for name, value in results.items()})
"""
FORMATS = {"onnx": (RUN_ONNX, ".onnx", 1e-5), "torch-export": (RUN_TORCH, ".pt2", 1e-5)}


class EveryHead(FlatEnv):
    """All kinds of observations and actions at once; it is never stepped."""

    structured_spaces = flat_spaces(
        spaces.Dict(
            vector=spaces.Box(-3.0, 5.0, (4,)),
            far=spaces.Box(1e6, 1e6 + 1, (2,)),
            kind=spaces.Discrete(3),
            pair=spaces.MultiDiscrete([2, 4]),
            bits=spaces.MultiBinary(3),
            bytes=spaces.Box(0, 255, (6,), np.uint8),
            choice_mask=spaces.MultiBinary(5),
            choices_mask=spaces.MultiBinary(7),
        ),
        spaces.Dict(
            choice=spaces.Discrete(5),
            choices=spaces.MultiDiscrete([3, 4]),
            flags=spaces.MultiBinary(3),
            squashed=spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 9.0], np.float32)),
            beta=spaces.Box(-2.0, 2.0, (2, 2)),
            gaussian=spaces.Box(-np.inf, np.inf, (3,)),
        ),
    )


NORMALISED = {
    "use": "observation-normalization",
    "clip_range": [-2.0, 2.0],
    "exclude": ["bytes"],
    "keys": {"vector": {"mean": [0.3], "std": [1.7]}, "far": {"min": [1e6], "max": [1e6 + 1]}},
}
BETA = {"use": "auto", "distributions": [{"action": "beta", "use": "beta"}]}


def experiment(env, **tables):
    kernel = Kernel.installed()
    return experiment_from_mapping({"name": "shown", "env": env, "trainer": {"use": "ppo"}, **tables}, kernel=kernel)


def checkpoint_of(loaded):
    """Weights large enough for all sorts of decisions, as a training leaves them."""
    assembly = Assembly(loaded, loaded.kernel)
    weights = assembly.make_model().state_dict()
    generator = torch.Generator().manual_seed(0)
    weights = {name: value + 0.3 * torch.randn(value.shape, generator=generator) for name, value in weights.items()}
    return Checkpoint(epoch=7, model=weights, transforms=assembly.transform_states())


def expected_actions(loaded, checkpoint, key, observation, *, mirror=True):
    """What a rollout would do: transforms, the policy (in NumPy, or in torch), and transforms of the action."""
    assembly = Assembly(loaded, loaded.kernel)
    spaces_seen = assembly.env_factory()().structured_spaces
    assembly.load_transform_states(checkpoint.transforms)
    for transform in assembly.transforms:
        spaces_seen = transform.bind(spaces_seen)
        observation = transform.observation(key, observation)
    policy = NetworkPolicy(load_weights(assembly.make_model(), weights_of(checkpoint)), mirror=mirror)
    rows = np.arange(len(next(iter(observation.values()))))
    actions = policy.act(key, Group(rows, np.zeros_like(rows), observation), deterministic=True)
    for transform in reversed(assembly.transforms):
        actions = transform.action(key, actions)
    return actions


def run_elsewhere(format_name, file, observation, folder):
    np.savez(folder / "observations.npz", **observation)
    arguments = [str(file), str(folder / "observations.npz"), str(folder / "results.npz")]
    script = FORMATS[format_name][0]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(np.load(folder / "results.npz"))


def assert_acts_alike(loaded, checkpoint, format_name, folder):
    written = export_checkpoint(
        loaded, loaded.kernel, checkpoint, folder / f"policy{FORMATS[format_name][1]}", format_name
    )
    inner = Assembly(loaded, loaded.kernel).env_factory()().structured_spaces
    assert [file.policy_key for file in written.files] == list(inner.policy_keys)
    for file in written.files:
        key = file.policy_key
        observation = random_observations(inner.observation[key], inner.action[key], N, seed=1)
        expected = expected_actions(loaded, checkpoint, key, observation, mirror=format_name == "onnx")
        results = run_elsewhere(format_name, file.path, observation, folder)
        for head, actions in expected.items():
            ours = results[f"actions.{head}"]
            assert ours.shape == actions.shape
            assert len(np.unique(actions)) > 1, "the policy always does the same: nothing is shown"
            if actions.dtype.kind in "iub":
                np.testing.assert_array_equal(ours, actions, err_msg=head)
            else:
                np.testing.assert_allclose(ours, actions, rtol=0, atol=FORMATS[format_name][2], err_msg=head)
    return written


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_fresh_process_takes_the_same_actions_for_a_thousand_observations(format_name, tmp_path):
    loaded = experiment(EveryHead, model=BETA, wrappers=[NORMALISED])
    written = assert_acts_alike(loaded, checkpoint_of(loaded), format_name, tmp_path)
    assert all(file.difference <= TOLERANCE for file in written.files)
    described = json.loads(written.description.read_text())
    assert (described["run"], described["epoch"], described["file_format"]) == ("shown", 7, format_name)
    assert described["wrappers_inside"] == ["observation-normalization"]
    policy = described["policies"]["0"]
    assert policy["observation"]["vector"] == {
        "space": "Box",
        "shape": [4],
        "dtype": "float32",
        "low": -3.0,
        "high": 5.0,
    }
    assert policy["action"]["squashed"]["high"] == [3.0, 9.0]
    assert policy["action"]["gaussian"]["high"] is None
    assert policy["logits"] == {
        "choice": [5],
        "choices": [7],
        "flags": [3],
        "squashed": [4],
        "beta": [8],
        "gaussian": [6],
    }


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_each_policy_key_becomes_a_file(format_name, tmp_path):
    env = {"use": "cutting-2d", "version": "masked", "max_pieces_in_inventory": 12}
    loaded = experiment(env, wrappers=[{"use": "time-limit", "max_episode_steps": 9}])
    written = assert_acts_alike(loaded, checkpoint_of(loaded), format_name, tmp_path)
    assert [file.path.stem for file in written.files] == ["policy-select", "policy-cut"]
    described = json.loads(written.description.read_text())
    assert described["wrappers_outside"] == ["time-limit"]


@pytest.mark.parametrize("format_name", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
def test_a_file_is_told_which_agent_decides_where_each_has_a_network(format_name, tmp_path):
    class Team(FlatEnv):
        structured_spaces = StructuredSpaces(
            observation={"member": spaces.Dict(place=spaces.Box(-1, 1, (3,)))},
            action={"member": spaces.Dict(go=spaces.Discrete(4))},
            agent_counts={"member": 3},
        )

    loaded = experiment(Team, model={"use": "auto", "separate_agent_nets": ["member"]})
    checkpoint = checkpoint_of(loaded)
    path = tmp_path / f"policy{FORMATS[format_name][1]}"
    written = export_checkpoint(loaded, loaded.kernel, checkpoint, path, format_name)
    assert json.loads(written.description.read_text())["policies"]["member"]["n_agents"] == 3
    rng = np.random.default_rng(1)
    observation = {"place": rng.uniform(-1, 1, (N, 3)).astype(np.float32)}
    agents = rng.integers(3, size=N)
    policy = NetworkPolicy(load_weights(Assembly(loaded, loaded.kernel).make_model(), weights_of(checkpoint)))
    expected = policy.act("member", Group(np.arange(N), agents, observation), deterministic=True)["go"]
    others = policy.act("member", Group(np.arange(N), (agents + 1) % 3, observation), deterministic=True)["go"]
    assert (expected != others).any(), "all agents act alike: nothing is shown"
    if format_name == "onnx":
        inputs = {**observation, "actor.agent_id": agents}
        actions = onnx_file.run(path.read_bytes(), inputs, (["go"], ["go"]))[0]["go"]
    else:
        program = torch.export.load(path).module()
        places = {"place": torch.from_numpy(observation["place"])}
        actions = program(places, agent_id=torch.from_numpy(agents))[0]["go"].numpy()
    np.testing.assert_array_equal(actions, expected)


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_images_go_through_convolutions(format_name, tmp_path):
    class Camera(FlatEnv):
        structured_spaces = flat_spaces(
            spaces.Dict(image=spaces.Box(0, 255, (24, 24, 3), np.uint8)), spaces.Dict(go=spaces.Discrete(4))
        )

    loaded = experiment(Camera)
    assert_acts_alike(loaded, checkpoint_of(loaded), format_name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_files_of_networks_in_bfloat16_compute_in_float32(format_name, tmp_path):
    plain, mixed = (experiment(EveryHead, model={"use": "auto", "precision": own}) for own in ("float32", "bfloat16"))
    checkpoint = checkpoint_of(plain)
    inner = Assembly(plain, plain.kernel).env_factory()().structured_spaces
    observation = random_observations(inner.observation["0"], inner.action["0"], N, seed=1)
    results = []
    for name, loaded in (("plain", plain), ("mixed", mixed)):
        path = tmp_path / f"{name}{FORMATS[format_name][1]}"
        (file,) = export_checkpoint(loaded, loaded.kernel, checkpoint, path, format_name).files
        assert file.difference <= TOLERANCE
        results.append(run_elsewhere(format_name, file.path, observation, tmp_path))
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array, err_msg=name)


@pytest.mark.parametrize("format_name", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
def test_pre_processing_goes_into_the_file(format_name, tmp_path):
    class Camera(FlatEnv):
        structured_spaces = flat_spaces(
            spaces.Dict(
                image=spaces.Box(0, 255, (12, 10, 3), np.uint8),
                grid=spaces.Box(-1.0, 1.0, (2, 3)),
                kind=spaces.Discrete(3, start=1),
                pair=spaces.MultiDiscrete([2, 4]),
            ),
            spaces.Dict(turn=spaces.Discrete(3), go=spaces.Discrete(4)),
        )

    wrappers = [
        {"use": "rgb2gray", "observation": "image"},
        {"use": "resize-img", "observation": "image-rgb2gray", "target_size": [6, 5]},
        {"use": "flatten", "observation": "image-rgb2gray-resize_img"},
        {"use": "transpose", "observation": "grid", "axes": [1, 0]},
        {"use": "unsqueeze", "observation": "grid-transpose", "dim": 0},
        {"use": "flatten", "observation": "grid-transpose-unsqueeze"},
        {"use": "one-hot", "observation": "kind"},
        {"use": "one-hot", "observation": "pair"},
        {"use": "sorted-spaces"},
    ]
    loaded = experiment(Camera, wrappers=wrappers)
    assert_acts_alike(loaded, checkpoint_of(loaded), format_name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_bins_of_an_action_without_dimensions_go_into_the_file_with_a_mask_of_another(format_name, tmp_path):
    class Valve(FlatEnv):
        structured_spaces = flat_spaces(
            spaces.Dict(level=spaces.Box(-1.0, 1.0, (3,)), action_mask=spaces.MultiBinary(4)),
            spaces.Dict(open=spaces.Box(-1.0, 2.0, ()), steps=spaces.Box(0, 4, (2,), np.int32), way=spaces.Discrete(4)),
        )

    loaded = experiment(Valve, wrappers=["discretize-actions"])
    assert_acts_alike(loaded, checkpoint_of(loaded), format_name, tmp_path)


@pytest.mark.parametrize("wrappers", [(), ("discretize-actions",)], ids=["plain", "bins"])
@pytest.mark.parametrize("format_name", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
def test_numbers_leave_a_file_in_the_dtypes_of_the_action_space(format_name, wrappers, tmp_path):
    class Valves(FlatEnv):
        structured_spaces = flat_spaces(
            spaces.Dict(level=spaces.Box(-1.0, 1.0, (3,))),
            spaces.Dict(coarse=spaces.Box(-1.0, 2.0, (3,), np.float16), fine=spaces.Box(-1.0, 2.0, (2,), np.float64)),
        )

    loaded = experiment(Valves, wrappers=list(wrappers))
    checkpoint = checkpoint_of(loaded)
    path = tmp_path / f"policy{FORMATS[format_name][1]}"
    written = export_checkpoint(loaded, loaded.kernel, checkpoint, path, format_name)
    described = json.loads(written.description.read_text())["policies"]["0"]["action"]
    observation = {"level": np.random.default_rng(1).uniform(-1, 1, (N, 3)).astype(np.float32)}
    results = run_elsewhere(format_name, path, observation, tmp_path)
    for head, actions in expected_actions(loaded, checkpoint, "0", observation).items():
        ours, dtype = results[f"actions.{head}"], np.dtype(described[head]["dtype"])
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, actions.astype(dtype), rtol=0, atol=1e-3 if head == "coarse" else 1e-5)
        assert (ours == actions.astype(dtype)).mean() > (0.99 if head == "coarse" else 0.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bound", [np.inf, np.finfo(np.float16).max])
def test_coarse_numbers_without_bounds_are_tried_near_zero(bound):
    observation = spaces.Dict(level=spaces.Box(-bound, bound, (3,), np.float16))
    drawn = random_observations(observation, spaces.Dict(go=spaces.Discrete(2)), 64, seed=0)["level"]
    assert drawn.dtype == np.float16
    assert (np.abs(drawn) < 5).mean() > 0.5


def test_critics_stay_at_home(tmp_path):
    loaded = experiment({"use": "gym", "id": "CartPole-v1"})
    checkpoint = checkpoint_of(loaded)
    (file,) = export_checkpoint(loaded, loaded.kernel, checkpoint, tmp_path / "p.pt2", "torch-export").files
    names = set(torch.export.load(file.path).state_dict)
    assert names
    assert not [name for name in names if "critic" in name]


class Doubled(Transform):
    """Changes observations in NumPy only."""

    def observation(self, policy_key, observation):
        return {name: 2 * array for name, array in observation.items()}


class Wrong(Doubled):
    """What it says in torch is not what it does."""

    def export_observation(self, policy_key, observation):
        return {name: 3 * tensor for name, tensor in observation.items()}


@pytest.mark.parametrize(
    ("wrapper", "message"), [(Doubled(), "no form in torch"), (Wrong(), "does not act like the trained one")]
)
def test_a_wrapper_that_does_not_fit_its_torch_form_is_refused(wrapper, message, tmp_path):
    loaded = experiment({"use": "gym", "id": "CartPole-v1"}, wrappers=[wrapper])
    with pytest.raises(MazeError, match=message):
        export_checkpoint(loaded, loaded.kernel, checkpoint_of(loaded), tmp_path / "p.pt2", "torch-export")
    assert list(tmp_path.iterdir()) == []


class WrongAboutX(Transform):
    """In torch it says `factor` times what it does in NumPy; masks are as they were."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def observation(self, policy_key, observation):
        return {**observation}

    def export_observation(self, policy_key, observation):
        return {**observation, "x": self.factor * observation["x"]}


@pytest.mark.parametrize("format_name", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
@pytest.mark.parametrize("is_masked", [True, False], ids=["masked", "unmasked"])
@pytest.mark.parametrize("factor", [1.5, np.nan])
def test_neither_masked_logits_nor_nan_hide_a_difference(factor, is_masked, format_name, tmp_path):
    class Choosing(FlatEnv):
        structured_spaces = flat_spaces(
            spaces.Dict(x=spaces.Box(-3.0, 3.0, (4,)), **({"a_mask": spaces.MultiBinary(5)} if is_masked else {})),
            spaces.Dict(a=spaces.Discrete(5)),
        )

    loaded = experiment(Choosing, wrappers=[WrongAboutX(factor)])
    path = tmp_path / f"p{FORMATS[format_name][1]}"
    with pytest.raises(MazeError, match="does not act like the trained one"):
        export_checkpoint(loaded, loaded.kernel, checkpoint_of(loaded), path, format_name)
    assert list(tmp_path.iterdir()) == []


class HalvedInTorch(Transform):
    """Of one policy key, once it is told to."""

    wrong_key = None

    def observation(self, policy_key, observation):
        return {**observation}

    def export_observation(self, policy_key, observation):
        return {name: array / (2 if policy_key == self.wrong_key else 1) for name, array in observation.items()}


def test_a_refused_policy_key_leaves_the_files_of_an_earlier_export_as_they_were(tmp_path, monkeypatch):
    keys = ("first", "second")

    class Team(FlatEnv):
        structured_spaces = StructuredSpaces(
            observation=dict.fromkeys(keys, spaces.Dict(seen=spaces.Box(-1, 1, (2,), np.float32))),
            action=dict.fromkeys(keys, spaces.Dict(choice=spaces.Discrete(2))),
            agent_counts=dict.fromkeys(keys, 1),
        )

    loaded = experiment(Team, wrappers=[HalvedInTorch()])
    checkpoint, out = checkpoint_of(loaded), tmp_path / "policy.pt2"
    export_checkpoint(loaded, loaded.kernel, checkpoint, out, "torch-export")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["policy-first.pt2", "policy-second.pt2", "policy.pt2.json"]
    monkeypatch.setattr(HalvedInTorch, "wrong_key", "second")
    other = attrs.evolve(checkpoint, epoch=9, model={name: value / 2 for name, value in checkpoint.model.items()})
    with pytest.raises(MazeError, match="key 'second' does not act like the trained one, so nothing was written"):
        export_checkpoint(loaded, loaded.kernel, other, out, "torch-export")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(onnx_file, "PACKAGES", ("onnx", "a_package_of_nobody"))
    loaded = experiment({"use": "gym", "id": "CartPole-v1"})
    with pytest.raises(RequestError, match="a_package_of_nobody") as raised:
        export_checkpoint(loaded, loaded.kernel, checkpoint_of(loaded), tmp_path / "p.onnx")
    assert "maze-deployment[export]" in raised.value.help


@pytest.fixture(scope="module")
def run(train):
    return train("CartPole-v1").run_dir


def test_a_context_and_its_run_directory_are_exported_alike(train, tmp_path):
    context = train("CartPole-v1")
    ours = export_policy(context, tmp_path / "ours.pt2", format_name="torch-export")
    theirs = export_policy(str(context.run_dir), str(tmp_path / "theirs.pt2"), format_name="torch-export")
    weights = [torch.export.load(written.files[0].path).state_dict for written in (ours, theirs)]
    assert weights[0]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_what_was_not_trained_is_not_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="nothing trained to export"):
        export_policy(RunContext(env="CartPole-v1", silent=True), "policy.pt2", format_name="torch-export")


def test_the_command_exports_a_run(run, tmp_path):
    out = tmp_path / "made" / "policy.pt2"
    done = CliRunner().invoke(make_app(), ["export", str(run), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"{out}: policy 0" in done.stdout
    description = out.with_name("policy.pt2.json")
    assert f"{description}: what goes in" in done.stdout
    assert out.is_file()
    assert json.loads(description.read_text())["policies"]["0"]["file"] == "policy.pt2"


@pytest.mark.slow
def test_two_exports_of_one_name_keep_a_description_each(run, tmp_path):
    pytest.importorskip("onnx")
    app = make_app()
    for name in ("policy.pt2", "policy.onnx"):
        assert CliRunner().invoke(app, ["export", str(run), "--out", str(tmp_path / name)]).exit_code == 0
    described = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("policy.pt2", "policy.onnx")}
    for name, text in described.items():
        assert text["policies"]["0"]["file"] == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "policy.bin"], "does not say in which format"),
        (["--out", "policy.onnx", "--format", "tflite"], "no export format 'tflite'"),
        (["--out", "policy.onnx", "--checkpoint", "epoch-99"], "epoch-000099"),
        (["--out", ".", "--format", "onnx"], ". is a folder"),
    ],
)
def test_a_wrong_request_is_explained(run, arguments, message):
    done = CliRunner().invoke(make_app(), ["export", str(run), *arguments])
    assert done.exit_code in (1, 2)
    assert message in done.stderr


def test_a_file_that_cannot_be_written_is_refused_before_the_policy_is_traced(run, tmp_path, monkeypatch):
    monkeypatch.setattr("maze_deployment.export._traced", None)
    (tmp_path / "file").write_text("kept")
    done = CliRunner().invoke(make_app(), ["export", str(run), "--out", str(tmp_path / "file" / "policy.pt2")])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: the export cannot be written to ")
    assert "file is no folder" in done.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_a_disk_that_takes_no_more_leaves_no_half_of_an_export(run, tmp_path, monkeypatch):
    def full(storage, path, data):
        path.write_bytes(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("maze_runtime.run.storage.Storage.write_bytes", full)
    done = CliRunner().invoke(make_app(), ["export", str(run), "--out", str(tmp_path / "policy.pt2")])
    assert done.exit_code == 2
    assert "policy.pt2: [Errno 28] No space left on device" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_is_not_exported(tmp_path):
    done = CliRunner().invoke(make_app(), ["export", "CartPole-v1", "--out", str(tmp_path / "policy.pt2")])
    assert done.exit_code == 2
    assert "nothing is trained in CartPole-v1" in done.stderr


def test_policy_keys_that_are_no_file_names_become_some(tmp_path):
    keys = ("team/a", "team-a", "b.c")

    class Team(FlatEnv):
        structured_spaces = StructuredSpaces(
            observation=dict.fromkeys(keys, spaces.Dict(seen=spaces.Box(-1, 1, (2,), np.float32))),
            action=dict.fromkeys(keys, spaces.Dict(choice=spaces.Discrete(2))),
            agent_counts=dict.fromkeys(keys, 1),
        )

    loaded = experiment(Team)
    written = export_checkpoint(loaded, loaded.kernel, checkpoint_of(loaded), tmp_path / "policy.pt2", "torch-export")
    assert [file.path.name for file in written.files] == ["policy-team-a.pt2", "policy-team-a-.pt2", "policy-b.c.pt2"]
