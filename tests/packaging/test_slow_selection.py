"""`.ci/slow_tests.py`: the slow tests of what a change touches run at once, the others have their turn."""

import importlib.util
import itertools
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("slow_tests", ROOT / ".ci" / "slow_tests.py")
slow_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(slow_tests)

OWN = ["tests/maze_gym/test_vectors.py", "tests/maze_gym/rooms/test_rooms.py"]
SHARED = ["tests/docs/test_pages.py", "tests/integration/test_runs.py", "tests/reliability/test_crashes.py"]
OTHERS = [f"tests/learning/test_{i}.py" for i in range(19)] + ["tests/maze_ppo/test_compiled.py"]
FILES = sorted([*OWN, *SHARED, *OTHERS])


@pytest.mark.parametrize("changed", ["plugins/maze_gym/src/maze_gym/envs.py", "tests/maze_gym/test_spaces.py"])
@pytest.mark.parametrize("day", range(9))
def test_a_change_runs_its_distribution_first_then_what_concerns_all(changed, day):
    chosen = slow_tests.chosen(FILES, [changed], day)
    assert chosen[:2] == sorted(OWN)
    assert sorted(chosen[2:5]) == SHARED
    assert set(chosen[5:]) <= set(OTHERS)
    assert len(chosen) == len(set(chosen)) < len(FILES)


def test_whatever_is_cut_off_for_lack_of_time_comes_first_on_another_day():
    firsts = {slow_tests.chosen(FILES, ["maze_ppo/src/maze_ppo/ppo.py"], day)[1] for day in range(3)}
    assert firsts == set(SHARED)


@pytest.mark.parametrize("changed", [[], ["maze_ppo/README.md"], ["docs/index.md", "plugins/maze_gym/pyproject.toml"]])
def test_every_file_has_its_turn_in_eight_days(changed):
    days = (slow_tests.chosen(FILES, changed, day) for day in range(5, 5 + slow_tests.TURNS))
    assert set(itertools.chain.from_iterable(days)) == set(FILES)


def test_learning_comes_last_wherever_it_lies():
    files = ["tests/maze_gym/test_gym_learning.py", *OWN, *SHARED]
    assert slow_tests.chosen(files, ["plugins/maze_gym/src/maze_gym/envs.py"], 0)[-1] == files[0]


def test_pages_call_for_the_tests_of_pages_and_the_build_for_all_shared_ones():
    assert slow_tests.touched_folders(["docs/how-to/export.md", "CHANGELOG.md"]) == {"docs"}
    for path in ("constraints.txt", "tests/conftest.py", ".ci/run", "examples/cartpole_ppo.toml"):
        assert slow_tests.touched_folders([path]) == set(slow_tests.SHARED)


def test_the_package_of_a_third_party_is_tried_from_its_wheel_when_it_changes():
    folders = slow_tests.touched_folders(["tests/third_party/maze_acme/src/maze_acme/commands.py"])
    assert folders >= {"third_party", "packaging"}


def test_files_with_slow_tests_are_found():
    files = slow_tests.slow_files(ROOT)
    assert "tests/packaging/test_wheels.py" in files
    assert "tests/packaging/test_import_graph.py" not in files
    assert {Path(file).parts[1] for file in files} >= set(slow_tests.SHARED)


def git(folder, *arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """Two landings on main, then a branch with a commit, a change that is not committed and a new file."""
    git(tmp_path, "init", "-b", "main")
    for name in ("first", "second", "third"):
        if name == "third":
            git(tmp_path, "checkout", "-b", "work")
        (tmp_path / name).write_text("1")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-m", name)
    (tmp_path / "second").write_text("2")
    (tmp_path / "fourth").write_text("1")
    return tmp_path


def test_a_branch_is_compared_with_where_it_left_main(repository):
    assert sorted(slow_tests.changed_paths(repository)) == ["fourth", "second", "third"]
    assert sorted(slow_tests.changed_paths(repository, "work")) == ["fourth", "second"]


def test_on_main_a_change_is_what_was_committed_within_some_hours(tmp_path, monkeypatch):
    git(tmp_path, "init", "-b", "main")
    for name, time in (
        ("landed", "2026-01-01T06:00:00Z"),
        ("begun", "2026-01-01T11:00:00Z"),
        ("done", "2026-01-01T12:30:00Z"),
    ):
        monkeypatch.setenv("GIT_COMMITTER_DATE", time)
        (tmp_path / name).write_text("1")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-m", name)
    assert sorted(slow_tests.changed_paths(tmp_path)) == ["begun", "done"]


def test_outside_of_a_repository_nothing_has_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert slow_tests.changed_paths(tmp_path) == []
