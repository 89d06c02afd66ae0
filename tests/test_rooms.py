"""The structure that ARCHITECTURE.md describes, checked against the source.

Imports go downwards only and neighbours do not import each other; adapters see the services and nothing behind them; a
class name exists once; ARCHITECTURE.md names every folder, and every path it names exists.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import herdbeat

SOURCE = Path(herdbeat.__file__).parent
ROOT = Path(__file__).parent.parent
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

LAYER_0_ORDER = (
    "platform",
    "threads",
    "failpoints",
    "error_codes",
    "errors",
    "clock",
    "durations",
    "timestamps",
    "time_phrases",
    "redaction",
    "domain",
    "events",
)
"""Layer 0, from left to right: each may import those to its left."""

LAYERS = {
    **dict.fromkeys(LAYER_0_ORDER, 0.0),
    **dict.fromkeys(("triggers", "governor", "prompts", "rules"), 1),
    **dict.fromkeys(("store", "runners", "executors", "work", "planner", "chat", "notify"), 2),
    **dict.fromkeys(("scheduler", "config"), 3),
    **dict.fromkeys(("service", "demo"), 4),
    "control_socket": 4.5,  # a transport for commands: bootstrap opens it, adapters reach it through bootstrap
    "bootstrap": 4.6,
    **dict.fromkeys(("cli", "server", "dashboard", "mcp", "python_api"), 5),
    "web": 5.5,  # the server with its pages: where two adapters meet
    "faces": 5.5,  # installed services of 0.1 run `python -m herdbeat.faces.cli`: it only calls the cli
    "testing": 6,
    "__main__": 6,
}

ADAPTER_IMPORTS = {
    "cli": {"demo"},
    "server": set[str](),
    "dashboard": set[str](),
    "mcp": set[str](),
    "python_api": {"triggers", "governor", "prompts", "web"},  # its public functions, and the app of Herd.asgi
}
"""Every adapter may import `service`, `bootstrap` and layer 0; these are what one of them may import besides."""

PURE_ROOMS = ("triggers", "governor", "prompts", "rules", "domain")
IMPURE_MODULES = {
    "asyncio",
    "http",
    "os",
    "pathlib",
    "random",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
}

KNOWN_VIOLATIONS: dict[str, str] = {}
"""Module to the rooms it may not import and still does. It only shrinks, and it is exact: remove what you fix."""

TREE_LINE = re.compile(r"^(?P<indent>[│ ]*)(?:├──|└──) (?P<entry>\S+)", re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\s]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@cache
def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def get_room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def iter_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the import out in full"
            yield from _iter_imported_modules(node)


def _iter_imported_modules(node: ast.ImportFrom) -> Iterator[str]:
    """`from herdbeat import triggers` names the room herdbeat.triggers."""
    for alias in node.names:
        if node.module != "herdbeat":
            yield str(node.module)
        elif not alias.name.startswith("__"):
            yield f"herdbeat.{alias.name}"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def may_import(importer: str, imported: str) -> bool:
    here, there = get_room(importer), get_room(imported)
    if here == there:
        return True
    if here in LAYER_0_ORDER and there in LAYER_0_ORDER:
        return LAYER_0_ORDER.index(there) < LAYER_0_ORDER.index(here)
    if here in ADAPTER_IMPORTS:
        return there in {"service", "bootstrap", *LAYER_0_ORDER, *ADAPTER_IMPORTS[here]}
    if here == "scheduler" and LAYERS[there] == LAYERS["store"]:
        return imported == f"herdbeat.{there}.base"  # the contract, not the implementation
    return LAYERS[there] < LAYERS[here]


@pytest.mark.parametrize(
    ("importer", "imported", "is_allowed"),
    [
        ("cli.main", "service.serialize", True),
        ("cli.main", "bootstrap.fleet", True),
        ("cli.main", "domain.run", True),
        ("cli.main", "demo.fleet", True),
        ("cli.main", "store.base", False),
        ("cli.main", "control_socket.client", False),
        ("cli.main", "python_api.herd", False),
        ("python_api.herd", "triggers", True),
        ("python_api.herd", "demo.fleet", False),
        ("bootstrap.fleet", "control_socket.server", True),
        ("control_socket.server", "bootstrap.fleet", False),
        ("control_socket.server", "service.serialize", True),
        ("service.serialize", "control_socket.client", False),
        ("scheduler.loop", "store.base", True),
        ("scheduler.loop", "store.reader", False),
        ("scheduler.loop", "config.loader", False),
        ("errors", "error_codes", True),
        ("error_codes", "errors", False),
        ("testing.herd", "cli.main", True),
    ],
)
def test_the_layers_decide_which_imports_are_allowed(importer: str, imported: str, is_allowed: bool) -> None:
    assert may_import(f"herdbeat.{importer}", f"herdbeat.{imported}") is is_allowed


def find_violations() -> set[tuple[str, str]]:
    return {
        (module_name(path), get_room(imported))
        for path in modules()
        for imported in iter_imports(path)
        if imported.startswith("herdbeat.") and not may_import(module_name(path), imported)
    }


def test_imports_follow_the_layers() -> None:
    violations = find_violations()
    known = {(f"herdbeat.{module}", room) for module, rooms in KNOWN_VIOLATIONS.items() for room in rooms.split()}

    assert sorted(violations - known) == [], "these imports break the layers of ARCHITECTURE.md"
    assert sorted(known - violations) == [], "these are fixed: remove them from KNOWN_VIOLATIONS"


def test_a_class_name_exists_once() -> None:
    names = Counter(node.name for path in modules() for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef))

    assert [name for name, count in names.items() if count > 1] == []


MAX_FUNCTION_LINES = 50
MAX_BROAD_EXCEPTS = 11


def test_no_function_is_too_long_to_read_at_once() -> None:
    lengths = {
        f"{path.relative_to(SOURCE)} {node.name}": (node.end_lineno or 0) - node.body[0].lineno + 1
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_broad_excepts_are_few_and_each_has_its_reason() -> None:
    found = [
        (path.relative_to(SOURCE), number, lines[max(0, number - 3) : number + 1])
        for path in sorted(SOURCE.rglob("*.py"))
        for lines in [path.read_text(encoding="utf-8").splitlines()]
        for number, line in enumerate(lines, start=1)
        if re.search(r"except( \(?(Base)?Exception\b|:)", line)
    ]

    assert len(found) <= MAX_BROAD_EXCEPTS, found
    assert [(path, number) for path, number, near in found if "# " not in "".join(near)] == []


@pytest.mark.parametrize(
    "path", [path for path in modules() if get_room(module_name(path)) in PURE_ROOMS], ids=module_name
)
def test_a_pure_room_does_no_io(path: Path) -> None:
    touched = {imported.split(".")[0] for imported in iter_imports(path)} & IMPURE_MODULES

    assert not touched, f"{module_name(path)} is pure and may not import {', '.join(sorted(touched))}"


def test_only_the_clock_reads_the_system_time() -> None:
    readers = {module_name(path) for path in modules() if reads_system_time(parse(path))}

    assert readers == {"herdbeat.clock"}


def reads_system_time(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and (node.attr in {"utcnow", "today"} or (node.attr == "now" and ast.unparse(node.value) == "datetime"))
        for node in ast.walk(tree)
    )


def test_every_room_has_a_layer() -> None:
    rooms = {get_room(module_name(path)) for path in modules()}

    assert rooms <= set(LAYERS)


def test_no_module_has_a_catch_all_name() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}

    assert not [path for path in modules() if path.stem in drawers]


def list_tree_entries() -> set[str]:
    """The files and folders that the tree of ARCHITECTURE.md draws, relative to src/herdbeat."""
    entries: set[str] = set()
    parents: list[str] = []
    for match in TREE_LINE.finditer(ARCHITECTURE):
        del parents[len(match["indent"]) // 4 :]
        entries.add("".join([*parents, match["entry"]]).rstrip("/"))
        parents.append(match["entry"])
    return entries


def test_the_tree_of_the_architecture_page_has_every_folder_and_top_level_module() -> None:
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if _is_source(path)} - {"."}
    top_level = {path.name for path in SOURCE.glob("*.py")}

    assert sorted((folders | top_level) - list_tree_entries()) == []


def _is_source(path: Path) -> bool:
    return path.suffix in {".py", ".sql", ".html", ".css", ".js"}


def test_every_path_on_the_architecture_page_exists() -> None:
    named = {f"src/herdbeat/{entry}" for entry in list_tree_entries()}
    named |= {span for span in CODE_SPAN.findall(FENCED.sub("", ARCHITECTURE)) if "/" in span and "<" not in span}

    assert sorted(path for path in named if not ((ROOT / path).exists() or (SOURCE / path).exists())) == []
