"""What the workflows and the Dockerfile take for granted holds here."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def workflow(name):
    return yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))


def test_tests_run_on_every_system_and_every_python_that_distributions_promise():
    matrix = workflow("test.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    files = [*ROOT.glob("maze_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
    promised = {re.search(r'requires-python = "(.*)"', file.read_text(encoding="utf-8"))[1] for file in files}
    assert promised == {f">={matrix['python'][0]}"}


def test_nothing_is_published_before_its_tests_and_its_version_agree():
    jobs = workflow("release.yml")["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert set(jobs["publish"]["needs"]) == {"test", "version"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets" not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    uploaded = {
        step["with"]["name"]
        for job in workflow("test.yml")["jobs"].values()
        for step in job["steps"]
        if "upload-artifact" in step.get("uses", "")
    }
    taken = {
        step["with"]["name"]
        for job in jobs.values()
        for step in job.get("steps", ())
        if "download-artifact" in step.get("uses", "")
    }
    assert taken == uploaded == {"dist", "html"}


def test_files_that_steps_name_exist():
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / ".github/workflows").glob("*.yml"))
    named = set(re.findall(r"(?:-r |-e \./|pytest )((?:\w+/)*\w[\w-]*(?:\.txt)?)", text)) | set(
        re.findall(r" (tests/\w+)", text)
    )
    assert {"requirements-dev.txt", "requirements-ray.txt", "tests/maze_ray"} <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_image_holds_every_distribution():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (\S+) ", dockerfile, re.M))
    linked = {"examples/maze_hello"}  # what the template of new plugins points to
    assert (ROOT / "maze_kernel/src/maze_kernel/plugin_template").resolve() == ROOT / "examples/maze_hello"
    distributions = {file.parent.name for file in ROOT.glob("maze_*/pyproject.toml")}
    assert copied == {"constraints.txt", "plugins"} | linked | distributions


def test_the_command_for_an_environment_of_ones_own_installs_the_bundle():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (left_out,) = re.findall(r"^ls -d \./maze_\*/ \./plugins/\*/ \| grep -v (.+) \| xargs pip install", readme, re.M)
    words = re.findall(r"-e (\w+)", left_out)
    folders = {file.parent for glob in ("maze_*", "plugins/*") for file in ROOT.glob(f"{glob}/pyproject.toml")}
    taken = {folder.name for folder in folders if not any(word in folder.name for word in words)}
    bundle = tomllib.loads((ROOT / "plugins/maze_suite/pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in bundle["dependencies"]}
    assert taken == needed | {"maze_suite", "maze_optuna"}


class UniqueKeys(yaml.SafeLoader):
    """YAML as GitHub reads it: a key twice in one mapping is an error, and `on` is a word."""


def _mapping(loader, node):
    keys = [key.value for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"line {node.start_mark.line + 1}: a key stands twice among {keys}"
    return loader.construct_mapping(node, deep=True)


UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
EVENTS = {"push", "pull_request", "workflow_call", "workflow_dispatch", "schedule"}
OF_WORKFLOWS = {"name", "on", "permissions", "concurrency", "env", "defaults", "jobs"}
OF_JOBS = {
    "name",
    "needs",
    "if",
    "runs-on",
    "environment",
    "permissions",
    "strategy",
    "steps",
    "timeout-minutes",
    "env",
}
OF_STEPS = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "timeout-minutes"}
READS_SCRIPTS = sys.platform != "win32"  # where bash may be that of a subsystem which is not installed
CONTEXTS = {"github", "matrix", "env", "needs", "steps", "runner", "inputs", "vars"}


def problems(text):
    """What GitHub would refuse, or would only find while it runs, as far as it can be seen in a file."""
    try:
        data = yaml.load(text, UniqueKeys)
    except (yaml.YAMLError, AssertionError) as error:
        return [str(error)]
    triggers = data.get("on", data.get(True)) or {}  # `on` is true in YAML 1.1
    data = {"on" if key is True else key: value for key, value in data.items()}
    found = [f"unknown key {key}" for key in data.keys() - OF_WORKFLOWS]
    found += [f"unknown event {event}" for event in set(triggers) - EVENTS]
    jobs = data.get("jobs", {})
    for name, job in jobs.items():
        found += [f"{name}: {problem}" for problem in job_problems(job, jobs)]
    for expression in re.findall(r"\$\{\{(.*?)\}\}", text):
        found += [f"no context {word}" for word in re.findall(r"\b([a-z]\w*)\.", expression) if word not in CONTEXTS]
    if text.count("${{") != text.count("}}"):
        found.append("an expression that does not end")
    return found


def job_problems(job, jobs):
    needs = job.get("needs", [])
    yield from (
        f"needs {other}, which is no job"
        for other in ([needs] if isinstance(needs, str) else needs)
        if other not in jobs
    )
    if "uses" in job:
        target = job["uses"].removeprefix("./")
        if not (ROOT / target).is_file():
            yield f"{target} does not exist"
        return
    yield from (f"unknown key {key}" for key in job.keys() - OF_JOBS)
    yield from (f"no {key}" for key in {"runs-on", "steps"} - job.keys())
    matrix = job.get("strategy", {}).get("matrix", {})
    named = set(re.findall(r"matrix\.(\w+)", str(job)))
    yield from (f"no matrix.{key}" for key in named - set(matrix))
    for number, step in enumerate(job.get("steps", ()), start=1):
        yield from (f"step {number}: {problem}" for problem in step_problems(step))


def step_problems(step):
    yield from (f"unknown key {key}" for key in step.keys() - OF_STEPS)
    if ("uses" in step) == ("run" in step):
        yield "either uses or run"
    elif "uses" in step and not re.fullmatch(
        r"[\w-]+/[\w-]+(/[\w-]+)*@(v\d[\w.]*|release/v\d+|[0-9a-f]{40})", step["uses"]
    ):
        yield f"{step['uses']} names no version"
    elif "run" in step and READS_SCRIPTS:
        script = re.sub(r"\$\{\{.*?\}\}", "value", step["run"])
        read = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        if read.returncode:
            yield read.stderr.strip()


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_one_that_can_begin(file):
    assert problems(file.read_text(encoding="utf-8")) == []


MISTAKES = {
    "    needs: [tets]": "needs tets",
    "    runs_on: x": "unknown key runs_on",
    "    steps:\n      - uses: actions/checkout": "names no version",
    **({"    steps:\n      - run: if true; then": "syntax error"} if READS_SCRIPTS else {}),
    "    steps:\n      - name: nothing": "either uses or run",
    "    runs-on: ${{ matrix.os }}": "no matrix.os",
    "    name: ${{ secret.token }}": "no context secret",
    "    name: ${{ matrix.os": "does not end",
    "    name: a\n    name: b": "stands twice",
    "    uses: ./.github/workflows/nothing.yml": "does not exist",
    "    steps: [": "parsing",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_a_workflow_are_found(mistake):
    found = problems(f"on:\n  push:\njobs:\n  one:\n{mistake}\n")
    assert MISTAKES[mistake] in " ".join(found)
    assert "unknown event pushed" in problems("on:\n  pushed:\njobs: {}\n")
