"""What the workflows and the Dockerfile take for granted holds here."""

import re
from pathlib import Path

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
