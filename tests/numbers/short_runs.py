"""One short run of each trainer through `maze train`, reduced to digests of all the numbers it left behind.

The digests were taken before the kernel was split into distributions and have to stay what they are: a move, a rename
or a refactoring changes no learning curve, no statistic and no weight. A statistic that is new counts in no digest:
those that count are named in `statistics.json`, run by run. Run this file to print the digests of this tree, and with
`--names` to print the statistics that its runs write.
"""

import csv
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from safetensors import safe_open

ROOT = Path(__file__).parents[2]
DIGESTS = Path(__file__).with_name("digests.json")
STATISTICS = Path(__file__).with_name("statistics.json")

COMMON = ('loggers=[{use="csv"}]', "evaluation.n_episodes=4", "evaluation.every_epochs=1", "trainer.patience=0")
NORMALISED = 'wrappers=[{use="observation-normalization"}, {use="return-normalization"}]'
BY_OBSERVATION = 'model={use="auto", distributions=[{space="Box", use="squashed-gaussian", std_from="observation"}]}'
POOL = 'workers={use="subprocess", count=2}'
PROCESSES = ('vector.mode="subprocess"', "vector.n_processes=2")
OLDER_A2C = (
    'trainer={use="a2c", n_epochs=2, epoch_length=2, n_rollout_steps=100, lr=5e-4, gamma=0.98, gae_lambda=1.0,'
    " max_grad_norm=0.0, normalize_advantages=true}"
)
FASTER_A2C = (
    'trainer={use="a2c", n_epochs=2, epoch_length=2, n_rollout_steps=8, lr={start=3e-3, end=0.0}, gamma=0.99,'
    " gae_lambda=0.95, normalize_advantages=true, entropy_coef=0.0, max_grad_norm=0.5, patience=0}"
)
OLDER_IMPALA = (
    'trainer={use="impala", n_epochs=2, epoch_length=4, num_actors=16, n_rollout_steps=32, actors_batch_size=4,'
    " deterministic=true, lr={start=1e-3, end=0.0}, gamma=0.98, max_grad_norm=0.0, patience=0, max_env_steps=300000}"
)
SHORT = ("trainer.n_epochs=2", "trainer.epoch_length=2")

RUNS = {
    "ppo-flat": ("cartpole_ppo.toml", SHORT),
    "ppo-normalised": ("pendulum_ppo.toml", (*SHORT, NORMALISED, BY_OBSERVATION)),
    "ppo-vector-processes": ("cartpole_ppo.toml", (*SHORT, *PROCESSES, NORMALISED)),
    "ppo-workers": ("cartpole_ppo.toml", (*SHORT, POOL, NORMALISED)),
    "ppo-structured": ("cutting2d_structured.toml", (*SHORT, "trainer.n_rollout_steps=64")),
    "ppo-structured-processes": ("cutting2d_structured.toml", (*SHORT, *PROCESSES, "trainer.n_rollout_steps=64")),
    "ppo-masked": ("cutting2d_masked.toml", (*SHORT, "trainer.n_rollout_steps=64")),
    "ppo-recurrent": ("repeat_first_recurrent_ppo.toml", SHORT),
    "ppo-games": ("connect_four_ppo.toml", (*SHORT, "trainer.n_rollout_steps=32")),
    "a2c-flat": ("cartpole_a2c.toml", (FASTER_A2C, "vector.n_envs=16", NORMALISED)),
    "a2c-structured": ("cutting2d_structured.toml", (*SHORT, OLDER_A2C)),
    "sac-flat": ("pendulum_sac.toml", ("trainer.max_env_steps=1400", "trainer.epoch_length=200", NORMALISED)),
    "sac-discrete": ("cartpole_sac.toml", ("trainer.max_env_steps=1400", "trainer.epoch_length=200")),
    "sac-structured": (
        "cutting2d_structured.toml",
        (
            'trainer={use="sac", max_env_steps=200, epoch_length=20, initial_buffer_size=64, batch_size=32,'
            " num_batches_per_iter=1}",
            'model={use="auto", sequences=["inventory"], hidden_units=[64, 64]}',
            "vector.n_envs=4",
        ),
    ),
    "impala-flat": (
        "cartpole_impala.toml",
        (OLDER_IMPALA, "wrappers=[]"),
    ),
    "impala-structured": (
        "cutting2d_structured.toml",
        (
            'trainer={use="impala", n_epochs=2, epoch_length=4, num_actors=4, actors_batch_size=2, deterministic=true,'
            " n_rollout_steps=16, patience=0, gamma=0.98, max_grad_norm=0.0, lr=5e-4}",
            "wrappers=[]",
            POOL,
        ),
    ),
    "es-flat": ("cartpole_es.toml", ("trainer.max_env_steps=4000", NORMALISED)),
    "es-workers": ("cartpole_es.toml", ("trainer.max_env_steps=4000", POOL)),
    "es-structured": (
        "cutting2d_structured.toml",
        (
            'trainer={use="es", n_epochs=2, n_rollouts_per_update=4, patience=0, deterministic=false,'
            ' noise_stddev=0.02, l2_penalty=0.005, optimizer={use="adam", step_size=0.01}}',
            'model={use="auto", sequences=["inventory"]}',
            'wrappers=[{use="time-limit", max_episode_steps=40}]',
        ),
    ),
    "bc-flat": ("cartpole_bc.toml", ("trainer.n_epochs=3",)),
    "bc-workers": ("cartpole_bc.toml", ("trainer.n_epochs=3", POOL)),
}
"""Name to an experiment of examples/ and what is overridden in it."""

RECORDED = "bc"
"""Runs whose name begins with this learn from episodes that "ppo-flat" recorded."""


def maze(*arguments, cwd):
    """Run `maze`, one thread a process, and stop where it fails."""
    command = [str(Path(sys.executable).with_name("maze")), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def play(name, folder):
    """Train `RUNS[name]` in `folder`; returns its run directory."""
    example, overrides = RUNS[name]
    if name.startswith(RECORDED):
        _record_demonstrations(folder)
    out = folder / name
    sets = [item for override in (*COMMON, *overrides) for item in ("--set", override)]
    maze("train", ROOT / "examples" / example, *sets, "--out", out, cwd=folder)
    return out


def digests(run, names):
    """Of a run directory: its learning curves, its last weights, and the statistics its wrappers keep.

    Args:
        names: of the statistics that count, a list a CSV file, as `statistics_names` gives them.
    """
    statistics = [row for row in _rows(run) if row[2] in names[row[1]]]
    state = json.loads((run / "checkpoints" / "last" / "state.json").read_text())
    assert statistics
    return {
        "statistics": _digest(json.dumps(statistics).encode()),
        "weights": _digest(*_tensors(run / "checkpoints" / "last" / "model.safetensors")),
        "rewards": [row[-1] for row in statistics if row[1:3] == ["eval", "BaseEnvEvents/reward/mean"]],
        "epoch": state["epoch"],
    }


def statistics_names(run):
    """The statistics of a run directory that depend on no clock, by CSV file, sorted."""
    names = {}
    for row in _rows(run):
        names.setdefault(row[1], set()).add(row[2])
    return {file: sorted(tags) for file, tags in names.items()}


def machine():
    """What the last bits of floating-point arithmetic depend on."""
    import numpy
    import torch

    return {
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
    }


def _processor():
    """Family, model and stepping: libraries choose their kernels by these among processors of one instruction set."""
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return platform.processor()
    first = information.read_text().split("\n\n")[0]
    told = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in first.splitlines() if ":" in line)
    return " ".join(told[name] for name in ("vendor_id", "cpu family", "model", "stepping") if name in told)


def _record_demonstrations(folder):
    if not (folder / "trajectories").exists():
        example, overrides = RUNS["ppo-flat"]
        sets = [item for override in (*COMMON, *overrides) for item in ("--set", override)]
        maze("train", ROOT / "examples" / example, *sets, "--out", folder / "expert", cwd=folder)
        recording = folder / "trajectories" / "cartpole"
        maze("rollout", folder / "expert", "--episodes", 5, "--record-to", recording, cwd=folder)


def _rows(run):
    for file in sorted((run / "statistics").glob("*.csv")):
        yield from _deterministic_rows(file)


def _deterministic_rows(file):
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if not any(word in row["tag"] for word in ("seconds", "per_second", "Speed", "lag")):
                yield [int(row["epoch"]), file.stem, row["tag"], row["env_steps"], row["value"]]


def _tensors(file):
    with safe_open(file, framework="np") as tensors:
        for name in sorted(tensors.keys()):
            array = tensors.get_tensor(name)
            yield f"{name} {array.dtype} {array.shape}".encode()
            yield array.tobytes()


def _digest(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def main(arguments):
    import tempfile

    names = [argument for argument in arguments if argument != "--names"] or RUNS
    recorded = json.loads(STATISTICS.read_text())
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            run = play(name, Path(folder))
            results[name] = statistics_names(run) if "--names" in arguments else digests(run, recorded[name])
            print(name, results[name], file=sys.stderr, flush=True)
    print(json.dumps(results if "--names" in arguments else {"machine": machine(), "runs": results}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
