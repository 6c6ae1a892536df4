"""Generated pages equal what the source says, and nothing a user can name is missing from the docs."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import maze_suite

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(_spec)
sys.modules["docs_generate"] = generate
_spec.loader.exec_module(generate)


@pytest.fixture(scope="module")
def pages():
    return generate.generated()


@pytest.mark.parametrize(
    "name",
    [
        "docs/reference/cli.md",
        "docs/reference/options.md",
        "docs/reference/hooks.md",
        "docs/reference/versions.md",
        *(f"docs/api/{file.name}" for file in sorted((ROOT / "docs/api").glob("*.md")) if file.name != "index.md"),
        "docs/figures/parts.svg",
        "README.md",
        "examples/maze.schema.json",
        "maze_kernel/src/maze_kernel/first_party.json",
    ],
)
def test_generated_files_are_up_to_date(pages, name):
    assert (ROOT / name).read_text(encoding="utf-8") == pages[ROOT / name], f"{name} is out of date: run make reference"


def test_code_in_a_table_is_left_as_it_is():
    text = 'each takes `n_rollout_steps`; `a["b"] | c` of my_table < 3'
    assert generate.cell(text) == 'each takes `n_rollout_steps`; `a["b"] \\| c` of my\\_table \\< 3'


def test_code_that_pages_show_is_that_of_the_files(pages):
    shown = [file for file in pages if file.parent.name == "tutorial"]
    assert len(shown) >= 5
    for file in shown:
        text = file.read_text(encoding="utf-8")
        assert text == pages[file], f"{file.name} shows code that is out of date: run make reference"
        blocks = [match[0] for match in generate.SHOWN.finditer(text)]
        assert blocks
        assert all(block.count("\n") > 5 for block in blocks)


def prose():
    """The pages that people wrote, without the generated ones."""
    files = [
        ROOT / "README.md",
        *(file for file in (ROOT / "docs").rglob("*.md") if file.parent.name not in ("reference", "api")),
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if "_build" not in file.parts)


def test_every_command_and_hook_is_written_about():
    from maze_kernel.loader import HOOKS

    text = prose()
    commands = generate.commands()
    assert "train" in commands
    for command in commands:
        assert f"maze {command}" in text, f"no page shows maze {command}"
    for hook in HOOKS:
        assert hook in text, f"no page names the hook {hook}"


def test_every_option_of_every_component_is_in_the_reference():
    from maze_kernel.config import describe

    page = (ROOT / "docs/reference/options.md").read_text(encoding="utf-8")
    kernel = generate.first_party_kernel()
    n_options = 0
    for entry in kernel.catalog.entries():
        name, kind = entry.component.name, entry.component.kind
        if kind == "command":
            continue  # cli.md shows them
        section = re.search(rf"^### {kind} `{re.escape(name)}`\n(.*?)(?=^##|\Z)", page, re.M | re.S)
        assert section, f"{kind} {name} is not in options.md"
        for option in () if kind == "preset" else describe(kernel, kind, name).options:
            assert f"| `{option.name}` |" in section[1]
            n_options += 1
    assert n_options > 100


def test_the_page_about_runs_names_all_that_may_change_and_all_options_of_loggers():
    from maze_kernel.config import describe
    from maze_runtime.training import resume

    page = (ROOT / "docs/reference/runs.md").read_text(encoding="utf-8")
    paragraph = page.partition("What may change with `--set` on resume")[2].partition("Anything else is refused")[0]
    for name in (*resume._FREE_KEYS, *resume._FREE_TABLES):
        assert re.search(rf"`\[*{name}\]*`", paragraph), f"{name} is not named"
    kernel = generate.first_party_kernel()
    for logger in ("console", "tensorboard", "csv", "drawing"):
        row = re.search(rf"^\| `{logger}` \|(.*)\|$", page, re.M)[1]
        assert re.findall(r"`(\w+)` \(", row) == [row.name for row in describe(kernel, "logger", logger).options]


def test_the_glossary_is_sorted():
    page = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^(.+)\n: ", page, re.M)
    assert len(words) > 20
    assert words == sorted(words, key=str.lower)


def test_the_readme_counts_the_files_of_algorithms():
    kernel = generate.first_party_kernel()
    modules = (entry.component.options.partition(".")[0] for entry in kernel.catalog.entries("trainer"))
    folders = [Path(importlib.util.find_spec(name).origin).parent for name in {*modules} - {"maze_rllib"}]
    counts = [len([file for file in folder.glob("*.py") if file.stem != "__init__"]) for folder in folders]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"a distribution of {min(counts)} to {max(counts)} files" in text


def test_links_between_pages_lead_somewhere():
    n_links = 0
    for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if "_build" in file.parts:
            continue
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (file.parent / target).exists(), f"{file.relative_to(ROOT)} links to {target}"
                n_links += 1
    assert n_links > 20


def test_modules_that_pages_name_exist():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("plugins/*/README.md")]
    pages += [page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts]
    sources = ("maze_*/src/**/*.py", "plugins/*/src/**/*.py", "examples/*/src/**/*.py")
    files = [file.with_suffix("").parts for pattern in sources for file in ROOT.glob(pattern)]
    modules = {".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__") for parts in files}
    modules |= {f"maze_suite.{name}" for name in maze_suite.__all__}
    wrong, n_named = [], 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if page.name == "CHANGELOG.md":  # the rows of its tables begin with what is no more
            text = re.sub(r"^\| [^|]*\|", "", text, flags=re.M)
        for module in re.findall(r"\b(maze_\w+(?:\.[a-z]\w*)+)", text):
            first = module.partition(".")[0]
            n_named += 1
            # behind a module may stand what it holds, behind a package only a module
            if first in modules and not {module, module.rpartition(".")[0]} & (modules - {first}):
                wrong.append(f"{page.relative_to(ROOT)} names {module}")
    assert n_named > 100
    assert wrong == []


def test_authors_find_every_hook_with_its_record_target_and_suite():
    from maze_kernel.components import COMPONENT_TYPES
    from maze_kernel.loader import HOOKS

    page = (ROOT / "docs/reference/plugin-authoring.md").read_text(encoding="utf-8")
    rows = {row[0]: row for row in re.findall(r"^\| `(maze_\w+)` \| `(\w+)` \| (.+?) \| (.+?) \|$", page, re.M)}
    assert {hook: row[1] for hook, row in rows.items()} == {
        hook: COMPONENT_TYPES[kind].__name__ for hook, kind in HOOKS.items()
    }
    suites = [suite for row in rows.values() for suite in re.findall(r"`(check_\w+|\w+Suite)`", row[3])]
    described = re.findall(r"^\| `\w+\.(\w+)", page, re.M)
    assert set(suites) <= set(described)


def test_the_page_about_models_names_every_block():
    page = (ROOT / "docs/reference/models.md").read_text(encoding="utf-8")
    rows = page.partition("\n## Blocks\n")[2].partition("\n\nA block is")[0].splitlines()
    shown = {(row.split("|")[1].strip(" `"), name) for row in rows for name in re.findall(r"`([\w-]+)`", row)[1:]}
    entries = generate.first_party_kernel().catalog.entries("block")
    assert shown == {(entry.plugin.distribution, entry.component.name) for entry in entries}


def test_the_card_of_the_algorithms_names_every_trainer():
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    card = page.partition("Algorithms\n")[2].partition(":::\n")[0]
    words = {"es": "evolution strategies", "bc": "cloning"}
    entries = generate.first_party_kernel().catalog.entries("trainer")
    names = {entry.component.name for entry in entries} - {"rllib"}
    assert [name for name in names if words.get(name, name.upper()) not in card] == []


@pytest.mark.parametrize("folder", ["how-to", "reference", "explanation", "tutorial", "algorithms", "migrate"])
def test_every_page_stands_in_the_table_and_the_tree_of_its_folder(folder):
    index = (ROOT / "docs" / folder / "index.md").read_text(encoding="utf-8")
    tables, _, tree = index.partition("```{toctree}\n")
    pages = {file.stem for file in (ROOT / "docs" / folder).glob("*.md")} - {"index"}
    assert pages
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", tables)) == pages
    assert pages <= set(tree.splitlines())
    assert f"docs/{folder}/" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_to_headings_as_github_spells_them():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pages = [page for page in pages if "_build" not in page.parts and page.name not in ("cli.md", "hooks.md")]
    missed = []
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", text):
            other = (page.parent / target) if target else page
            if other.suffix == ".md" and anchor not in anchors(other.resolve()):
                missed.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert missed == []


def anchors(page):
    """The anchors of a page's headings, and the labels that stand before some."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    spelt = {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        for title in titles
    }
    return spelt | set(re.findall(r"^\((.+)\)=$", text, re.M))
