"""Writes the pages and tables that follow from the source: `make reference`. A test holds them equal.

The command line (docs/reference/cli.md), every option of every component (docs/reference/options.md), the hooks
(docs/reference/hooks.md), the versions that work together (docs/reference/versions.md), the frame of the Python API
(docs/api/), the plugin table of the README, the drawing of the parts (docs/figures/parts.svg), the JSON Schemas beside
the examples, the kernel's table of what brings which component, the code that the tutorial shows, which is that of the
files it names, and the tables of options on the pages of the algorithms.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import sys
from pathlib import Path

import attrs
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by docs/generate.py (make reference); change the source, not this page. -->\n\n"


def first_party_kernel():
    """The plugins of this repository, whatever else is installed."""
    from maze_kernel.catalog import Catalog
    from maze_kernel.loader import Kernel

    own = {re.search(r'^name = "(.+)"', file.read_text(), re.M)[1] for file in distributions()}
    kernel = Kernel.installed()
    kernel.plugins = tuple(plugin for plugin in kernel.plugins if plugin.distribution in own)
    kernel.catalog = Catalog(kernel.plugins)
    return kernel


def distributions() -> list[Path]:
    """The pyproject files of everything that ships."""
    return sorted([*ROOT.glob("maze_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")])


def commands() -> list[str]:
    """The names of the commands, in the order of `maze --help`."""
    return [entry.component.name for entry in first_party_kernel().catalog.entries("command")]


def cli_page() -> str:
    """Every command with its help."""
    pages = ["# Command line\n", "Results go to standard output, progress and errors to standard error.\n"]
    pages.append(EXIT_CODES)
    for command in ["", *commands()]:
        arguments = [command, "--help"] if command else ["--help"]
        title = f"maze {command}".strip()
        pages.append(f"## {title}\n\n```text\n{help_text(arguments)}\n```\n")
    return NOTE + "\n".join(pages)


EXIT_CODES = """| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the run, or an episode of a rollout, failed |
| 2 | the request was wrong: a file, an option, a name; nothing was started |
| 130 | interrupted, after saving a checkpoint |
"""


def help_text(arguments: list[str]) -> str:
    """What `maze … --help` prints in a hundred columns."""
    from maze_kernel.cli.app import make_app

    return (
        CliRunner()
        .invoke(make_app(first_party_kernel()), arguments, prog_name="maze", env={"COLUMNS": "100"})
        .stdout.rstrip()
    )


def options_page(kernel) -> str:
    """Every component with its options."""
    from maze_kernel.components import COMPONENT_TYPES
    from maze_kernel.config import describe

    pages = ["# Components and their options\n", "`maze describe KIND NAME` prints the same on the command line.\n"]
    for kind in COMPONENT_TYPES:
        entries = kernel.catalog.entries(kind)
        if not entries or kind == "command":  # cli.md shows these
            continue
        pages.append(f"## Kind: {kind}\n")
        if kind == "preset":
            pages += [preset_section(kernel, entry) for entry in entries]
            continue
        for entry in entries:
            about = describe(kernel, kind, entry.component.name)
            pages.append(f"### {kind} `{entry.component.name}`\n\n{about.summary} Provided by {entry.plugin.name}.\n")
            pages.append(options_table(about.options))
    return NOTE + "\n".join(pages)


def preset_section(kernel, entry) -> str:
    """A preset with everything it says."""
    from maze_kernel.config import to_toml
    from maze_kernel.config.presets import preset_table

    text = to_toml(preset_table(kernel.catalog, entry)).strip()
    about = f"{entry.component.summary} Provided by {entry.plugin.name}."
    block = f"<!-- test: preset {entry.component.name} -->\n```toml\n{text}\n```\n"
    return f"### preset `{entry.component.name}`\n\n{about}\n\n{block}"


def options_table(options) -> str:
    """A table of options, or a sentence where there are none."""
    if not options:
        return "It has no options.\n"
    rows = [f"| `{row.name}` | {cell(row.type)} | {cell(row.default)} | {cell(row.meaning)} |" for row in options]
    return "\n".join(["| option | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def cell(text: str) -> str:
    """Text that stays within its table cell and is not read as markup; what stands between backticks is code."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(re.sub(r"[|]" if part.startswith("`") else r"[|<>*_\[\]$]", r"\\\g<0>", part) for part in parts)


HOW_TO = {
    "maze_envs": "own-environment",
    "maze_wrappers": "write-a-wrapper",
    "maze_blocks": "write-a-block",
    "maze_distributions": "write-a-distribution",
    "maze_trainers": "write-a-trainer",
    "maze_loggers": "write-a-logger",
    "maze_models": "use-a-network-of-your-own",
    "maze_policies": "write-a-policy",
    "maze_datasets": "recordings",
    "maze_workers": "cluster",
    "maze_vectors": "batched-environments",
    "maze_searchers": "tune",
    "maze_callbacks": "callbacks",
}
"""The page about what a hook provides."""


def hooks_page() -> str:
    """Every hook with its docstring, which is Markdown, and what its record says."""
    from maze_kernel.components import COMPONENT_TYPES, Component
    from maze_kernel.hookspecs import MazeHooks
    from maze_kernel.loader import HOOKS

    pages = [
        "# Hooks\n",
        "What a plugin can provide. Each hook takes no argument and returns an iterable of records. A record says:\n",
        record_fields(Component),
        "The target is called with the arguments that stand below; `options` are an instance of the options class or, "
        "without one, keyword arguments. The examples are one module, `my_plugin.py`, that begins so:\n",
        "```python\nimport maze_kernel.components as c\nfrom maze_kernel import hookimpl\n\nMAZE_PLUGIN_API = 1\n```\n",
    ]
    for name, kind in HOOKS.items():
        summary, _, example = inspect.getdoc(getattr(MazeHooks, name)).partition("\n\n")
        example = re.sub(r"\n+@hookimpl", "\n\n@hookimpl", example)
        pages += [f"## {name}\n", f"{summary}{page_about(name)}\n", record_text(COMPONENT_TYPES[kind]), f"{example}\n"]
    return NOTE + "\n".join(pages)


def page_about(hook: str) -> str:
    """A sentence with the page about what a hook provides; empty where none is about it alone."""
    if hook not in HOW_TO:
        return ""
    file = f"how-to/{HOW_TO[hook]}.md"
    title = (ROOT / "docs" / file).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f" More: [{title}](../{file})."


def record_text(record: type) -> str:
    """A record of a kind: its target, and what it says besides what every record does."""
    from maze_kernel.config.documentation import texts_of_class

    return f"Record: `{record.__name__}`. {texts_of_class(record).summary}\n\n{record_fields(record)}".rstrip() + "\n"


def record_fields(record: type) -> str:
    """The fields of a record as a list; of one of a kind those that not every record has."""
    from maze_kernel.components import Component
    from maze_kernel.config.documentation import texts_of_class

    common = () if record is Component else attrs.fields_dict(Component)
    texts = texts_of_class(record).fields
    return "".join(
        f"- `{name}`{'' if field.default is attrs.NOTHING else f' (`{field.default!r}`)'}: {texts[name]}\n"
        for name, field in attrs.fields_dict(record).items()
        if name not in common
    )


def plugin_table(kernel) -> str:
    """The plugins of this repository and what they offer, for the README."""
    rows = ["| plugin | offers |", "|---|---|"]
    for plugin in kernel.plugins:
        offers: dict[str, list[str]] = {}
        for component in plugin.components:
            offers.setdefault(component.kind, []).append(f"`{component.name}`")
        listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in offers.items())
        rows.append(f"| [{plugin.name}]({folder_of(plugin.name)}) | {listed} |")
    return "\n".join(rows)


def folder_of(distribution: str) -> str:
    """The folder of a distribution, from the root."""
    name = distribution.replace("-", "_")
    return name if (ROOT / name).is_dir() else f"plugins/{name}"


def with_plugin_table(readme: str, table: str) -> str:
    """The README with its table replaced."""
    return re.sub(r"(<!-- plugins -->\n).*?(\n<!-- /plugins -->)", rf"\g<1>{table}\g<2>", readme, flags=re.S)


def parts_drawing() -> str:
    """The distributions and what each is built on."""
    drawn: str = runpy.run_path(str(ROOT / "docs/draw_parts.py"))["parts_svg"](distributions())
    return drawn


SHOWN = re.compile(r"(<!-- code: (?P<file>\S+)(?P<names>[^\n]*) -->\n```(?P<language>\w+)\n).*?(^```$)", re.S | re.M)


def with_shown_code(page: str) -> str:
    """A page whose blocks under `<!-- code: FILE NAMES -->` are the file, or what it defines by these names."""

    def replaced(match: re.Match[str]) -> str:
        code = shown(ROOT / match["file"], match["names"].split())
        return f"{match[1]}{code}\n{match[5]}"

    return SHOWN.sub(replaced, page)


def shown(file: Path, names: list[str]) -> str:
    """The source of functions, classes, constants (`name`) and of some methods of a class (`Class.method`)."""
    source = file.read_text(encoding="utf-8")
    if not names:
        return source.rstrip()
    lines, found, parts = source.splitlines(), _definitions(ast.parse(source)), []
    heading = None
    for name in names:
        owner, _, method = name.rpartition(".")
        if owner and owner != heading:
            first = found[owner]
            parts.append("\n".join(lines[_first_line(first) - 1 : first.body[0].lineno - 1]).rstrip())
        heading = owner
        text = "\n".join(lines[_first_line(found[name]) - 1 : found[name].end_lineno])
        parts.append(text if method and owner else f"\n{text}" if parts else text)
    return re.sub(r"(class [^\n]*:\n)\n+", r"\1", "\n\n".join(parts))


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines; methods as Class.method."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found[ast.unparse(target)] = node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found |= {f"{node.name}.{part.name}": part for part in methods}
    return found


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def api_pages() -> dict[Path, str]:
    """The pages that Sphinx fills with docstrings."""
    written: dict[str, str] = runpy.run_path(str(ROOT / "docs/api_pages.py"))["api_pages"]()
    return {ROOT / "docs/api" / name: NOTE + text for name, text in written.items()}


TABLE = re.compile(r"(<!-- options: (?P<kind>\S+) (?P<name>\S+) -->\n).*?(<!-- /options -->)", re.S)


def with_option_tables(page: str, kernel) -> str:
    """A page whose tables between `<!-- options: KIND NAME -->` and `<!-- /options -->` are those of the component."""
    from maze_kernel.config import describe

    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}{options_table(describe(kernel, match['kind'], match['name']).options)}{match[4]}"

    return TABLE.sub(replaced, page)


def versions_page() -> str:
    """The versions that work together."""
    from maze_kernel.components import PLUGIN_API
    from maze_runtime.run.directory import FORMAT as RUN
    from maze_runtime.training.checkpoint import FORMAT as CHECKPOINT
    from maze_trajectories.episode_file import FORMAT as RECORDING

    write = runpy.run_path(str(ROOT / "docs/versions_page.py"))["versions_page"]
    page: str = write(distributions(), (PLUGIN_API, RUN, CHECKPOINT, RECORDING))
    return NOTE + page


def filled_pages(kernel) -> dict[Path, str]:
    """The pages that show code of the repository, or the options of a component."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))}
    return {
        page: with_option_tables(with_shown_code(text), kernel)
        for page, text in pages.items()
        if SHOWN.search(text) or TABLE.search(text)
    }


def first_party(kernel) -> dict[str, dict[str, str]]:
    """Kind to component, "" for the default one, to the distribution that brings it."""
    found: dict[str, dict[str, str]] = {}
    for entry in kernel.catalog.entries():
        names = found.setdefault(entry.component.kind, {})
        names[entry.component.name] = entry.plugin.distribution
        if entry.component.kind != "logger" and is_default(entry.component):
            names[""] = entry.plugin.distribution
    return found


def is_default(component) -> bool:
    """Whether it is used where nothing is selected."""
    return bool(getattr(component, "default", False) or getattr(component, "default_for", ()))


def generated() -> dict[Path, str]:
    """Every generated file and its content."""
    from maze_kernel.config import schema
    from maze_sweeps.sweep_schema import sweep_schema

    kernel = first_party_kernel()
    failed = [f"{plugin.name}: {plugin.cause}" for plugin in kernel.plugins if plugin.status != "active"]
    if failed:
        sys.exit(f"plugins that do not load cannot be documented: {failed}; run make venv")
    readme = ROOT / "README.md"
    return {
        ROOT / "docs/reference/cli.md": cli_page(),
        ROOT / "docs/reference/options.md": options_page(kernel),
        ROOT / "docs/reference/hooks.md": hooks_page(),
        ROOT / "docs/reference/versions.md": versions_page(),
        ROOT / "docs/figures/parts.svg": parts_drawing(),
        ROOT / "examples/maze.schema.json": f"{json.dumps(schema(kernel), indent=2, sort_keys=True)}\n",
        ROOT / "examples/sweeps/sweep.schema.json": f"{json.dumps(sweep_schema(kernel), indent=2, sort_keys=True)}\n",
        ROOT / "maze_kernel/src/maze_kernel/first_party.json": f"{json.dumps(first_party(kernel), indent=2)}\n",
        readme: with_plugin_table(readme.read_text(encoding="utf-8"), plugin_table(kernel)),
        **api_pages(),
        **filled_pages(kernel),
    }


if __name__ == "__main__":
    for file, text in generated().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(file.relative_to(ROOT))
