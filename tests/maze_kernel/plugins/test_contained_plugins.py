"""Promise 9: a broken plugin is contained, and its neighbours work."""

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from maze_kernel.containment import contained
from maze_kernel.errors import PluginError
from maze_kernel.loader import Kernel, find_plugins

HEADER = """
from maze_kernel import hookimpl
from maze_kernel.components import EnvComponent, TrainerComponent, WrapperComponent
MAZE_PLUGIN_API = 1
"""

BROKEN = {
    "import error": ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
    "syntax error": ("def broken(:\n    pass", "SyntaxError"),
    "system exit": ("import sys\nsys.exit('bye')", "SystemExit: bye"),
    "raises on import": ("1 / 0", "ZeroDivisionError: division by zero"),
    "no API number": ("x = 1", "MAZE_PLUGIN_API is missing"),
    "wrong API number": ("MAZE_PLUGIN_API = 2", "written for plugin API 2; this kernel has plugin API 1"),
    "API number is no integer": ("MAZE_PLUGIN_API = '1'", "MAZE_PLUGIN_API is '1', not an integer"),
    "API number is a bool": ("MAZE_PLUGIN_API = True", "MAZE_PLUGIN_API is True, not an integer"),
    "no hook": ("MAZE_PLUGIN_API = 1", "it implements no hook"),
    "misspelt hook": (
        HEADER + "@hookimpl\ndef maze_trainerz():\n    return []",
        "unknown hook maze_trainerz (did you mean maze_trainers?)",
    ),
    "unmarked hook": (HEADER + "def maze_envs():\n    return []", "function maze_envs lacks the decorator @hookimpl"),
    "hook with an argument": (
        HEADER + "@hookimpl\ndef maze_envs(config):\n    return []",
        "hook maze_envs: it takes no arguments (",
    ),
    "hook raises": (HEADER + "@hookimpl\ndef maze_envs():\n    raise OSError('disk')", "hook maze_envs: OSError: disk"),
    "generator raises late": (
        HEADER + "@hookimpl\ndef maze_envs():\n    yield EnvComponent(name='e', target='m:e')\n    exit(3)",
        "hook maze_envs: SystemExit: 3",
    ),
    "hook returns nothing": (HEADER + "@hookimpl\ndef maze_envs():\n    pass", "it returned NoneType"),
    "wrong record": (
        HEADER + "@hookimpl\ndef maze_envs():\n    yield TrainerComponent(name='t', target='m:T')",
        "it returned TrainerComponent where EnvComponent belongs",
    ),
    "bad target": (
        HEADER + "@hookimpl\ndef maze_envs():\n    yield EnvComponent(name='e', target='no colon')",
        "target 'no colon' is not 'package.module:attribute'",
    ),
    "duplicate name": (
        HEADER + "@hookimpl\ndef maze_envs():\n"
        "    yield EnvComponent(name='e', target='m:a')\n    yield EnvComponent(name='e', target='m:b')",
        "two different components of kind env called 'e'",
    ),
}


def test_a_hook_with_an_argument_costs_the_plugin_no_other_hook(distributions):
    wrong = "@hookimpl\ndef maze_envs(config):\n    return []\n"
    right = "@hookimpl\ndef maze_wrappers():\n    yield WrapperComponent(name='w', target='m:W')\n"
    distributions("maze-broken", HEADER + wrong + right)
    kernel = Kernel.installed()
    broken = record_of(kernel, "maze-broken")
    assert broken.status == "failed"
    assert broken.cause.startswith("hook maze_envs: it takes no arguments (")
    assert broken.cause.endswith("maze_broken.py:5)")
    assert [component.name for component in broken.components] == ["w"]


def record_of(kernel, name):
    (record,) = [record for record in kernel.plugins if record.name == name]
    return record


@pytest.mark.parametrize("case", BROKEN)
def test_it_is_reported_and_its_neighbour_works(case, distributions, capfd):
    source, cause = BROKEN[case]
    distributions("maze-broken", source, version="0.3")
    distributions("zz-good")

    kernel = Kernel.installed()

    broken = record_of(kernel, "maze-broken")
    assert (broken.status, broken.distribution, broken.version) == ("failed", "maze-broken", "0.3")
    assert cause in broken.cause
    assert "\n" not in broken.cause
    assert record_of(kernel, "zz-good").status == "active"
    assert kernel.catalog.find("wrapper", "zz-good").plugin.version == "1.0"
    captured = capfd.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if "maze-broken" in line]
    assert lines == [f"maze: plugin maze-broken (maze-broken 0.3) failed to load: {broken.cause}"]


def test_it_is_fatal_only_to_who_asks_for_it(distributions):
    distributions("maze-broken", "import no_such_module_anywhere", version="0.3")
    kernel = Kernel.installed()
    cause = "plugin maze-broken failed to load: ModuleNotFoundError: No module named 'no_such_module_anywhere'"
    with pytest.raises(PluginError) as qualified:
        kernel.catalog.find("trainer", "maze-broken:broken")
    assert cause in qualified.value.what
    with pytest.raises(PluginError) as plain:
        kernel.catalog.find("trainer", "some-trainer-nobody-has")
    assert cause in str(plain.value)


def test_the_other_hooks_of_a_plugin_still_count(distributions):
    distributions(
        "maze-half",
        HEADER
        + "@hookimpl\ndef maze_envs():\n    raise OSError('disk')\n"
        + "@hookimpl\ndef maze_wrappers():\n    yield WrapperComponent(name='half-wrapper', target='m:W')\n",
    )
    kernel = Kernel.installed()
    assert record_of(kernel, "maze-half").status == "failed"
    assert kernel.catalog.find("wrapper", "half-wrapper").component.target == "m:W"


def test_output_on_import_stays_off_standard_output(distributions, capfd):
    distributions(
        "maze-noisy",
        HEADER
        + "import os, sys\nprint('from Python')\nos.write(1, b'from C\\n')\nos.system('echo from a child')\n"
        + "@hookimpl\ndef maze_wrappers():\n    print('in a hook')\n    return []\n",
    )
    kernel = Kernel.installed()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert record_of(kernel, "maze-noisy").status == "active"
    (note,) = record_of(kernel, "maze-noisy").notes
    assert note.startswith("printed 4 lines while loading")
    assert note in captured.err


def test_output_of_a_plugin_that_fails_stays_off_standard_output_too(distributions, capfd):
    distributions("maze-noisy", "print('half way')\nimport no_such_module_anywhere")
    kernel = Kernel.installed()
    assert capfd.readouterr().out == ""
    assert record_of(kernel, "maze-noisy").notes == ("printed 1 line while loading: 'half way'",)


def test_standard_output_comes_back_where_two_threads_load_plugins(capfd):
    entered = threading.Event()

    def load():
        with contained():
            entered.set()

    second = threading.Thread(target=load)
    with contained():
        second.start()
        assert not entered.wait(0.05)
    second.join()
    print("printed afterwards", flush=True)
    assert capfd.readouterr().out == "printed afterwards\n"


def test_directory_and_random_states_are_put_back(distributions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random.seed(5)
    np.random.seed(5)
    expected = (random.random(), np.random.random())
    random.seed(5)
    np.random.seed(5)
    distributions(
        "maze-rude",
        HEADER
        + "import os, random, numpy\nos.chdir('/')\nrandom.seed(1)\nnumpy.random.seed(1)\n"
        + "@hookimpl\ndef maze_wrappers():\n    random.random()\n    return []\n",
    )
    kernel = Kernel.installed()
    assert (random.random(), np.random.random()) == expected
    assert os.getcwd() == str(tmp_path)
    assert len(record_of(kernel, "maze-rude").notes) == 3


def test_ctrl_c_while_loading_is_not_swallowed(distributions):
    distributions("maze-slow", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        Kernel.installed()


def test_a_disabled_plugin_is_listed_and_not_imported(distributions):
    distributions("maze-broken", "raise SystemExit")
    kernel = Kernel.installed(disable=["Maze_Broken"])
    assert record_of(kernel, "maze-broken").status == "disabled"
    assert "maze_broken" not in sys.modules
    with pytest.raises(PluginError, match="plugin maze-broken is disabled"):
        kernel.catalog.find("env", "maze-broken:thing")


def test_finding_imports_nothing_and_is_sorted(distributions):
    distributions("zz-last", "raise SystemExit")
    distributions("aa-first", "raise SystemExit")
    names = [source.name for source in find_plugins()]
    assert names[0] == "aa-first"
    assert names[-1] == "zz-last"
    assert names == sorted(names)
    assert not {"zz_last", "aa_first"} & set(sys.modules)


def test_loading_needs_neither_torch_nor_gymnasium_nor_numpy():
    code = (
        "import sys, maze_kernel.loader, maze_kernel.catalog, maze_kernel.builtin\n"
        "k = maze_kernel.loader.Kernel.of(maze_kernel.builtin)\n"
        "assert k.catalog.entries()\n"
        "print([m for m in ('torch', 'gymnasium', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
