"""The house of ARCHITECTURE.md, checked: imports go downwards only, and neighbours do not import each other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import herdbeat

SOURCE = Path(herdbeat.__file__).parent
LOOKUP_DIRS = (SOURCE, SOURCE.parents[1], *(path for path in SOURCE.rglob("*") if path.is_dir()))
"""Where a name in ARCHITECTURE.md may be looked up: a row may name a second file of its room by its name alone."""

LAYER_0_ORDER = (
    "collector",
    "crashpoints",
    "codes",
    "errors",
    "clock",
    "durations",
    "moments",
    "located",
    "domain",
    "events",
)
"""Floor 0, from left to right: each may use those to its left."""

LAYERS = {
    **dict.fromkeys(LAYER_0_ORDER, 0),
    **dict.fromkeys(("triggers", "governor", "prompts", "rules"), 1),
    **dict.fromkeys(("store", "runners", "work", "planner"), 2),
    **dict.fromkeys(("scheduler", "config"), 3),
    **dict.fromkeys(("service", "bench", "demo"), 4),
    **dict.fromkeys(("app", "serve"), 4.5),
    "faces": 5,
    "testing": 6,
    "__main__": 6,
}
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


ARCHITECTURE_TEXT = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def get_room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def iter_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    if here == "scheduler" and LAYERS[there] == 2:
        return imported == f"herdbeat.{there}.base"  # the contract, not who keeps it
    return LAYERS[there] < LAYERS[here]


def test_the_house_is_drawn_with_every_room() -> None:
    rooms = {path.relative_to(SOURCE).parts[0] for path in modules()}

    missing = [
        room
        for room in sorted(rooms)
        if f"── {room}" not in ARCHITECTURE_TEXT and f"── {room}/" not in ARCHITECTURE_TEXT
    ]

    assert not missing


def test_every_file_that_the_house_names_is_there() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|sql|md))`", ARCHITECTURE_TEXT))

    gone = [each for each in sorted(named) if not any((place / each).exists() for place in LOOKUP_DIRS)]

    assert len(named) > 50
    assert not gone


def test_every_file_of_the_scheduler_is_named() -> None:
    """Forty files are found in one guess only if somebody says what each of them knows."""
    own = [path.stem for path in modules() if path.parent.name == "scheduler" and path.stem != "__init__"]

    missing = [
        each for each in own if f"`{each}`" not in ARCHITECTURE_TEXT and f"scheduler/{each}.py" not in ARCHITECTURE_TEXT
    ]

    assert not missing


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_imports_go_downwards_only(path: Path) -> None:
    name = module_name(path)
    ours = [each for each in iter_imports(path) if each.split(".")[0] == "herdbeat" and get_room(each)]

    wrong = [each for each in ours if not may_import(name, each)]

    assert not wrong, f"{name} (floor {LAYERS[get_room(name)]}) may not import {', '.join(wrong)}"


@pytest.mark.parametrize(
    "path", [path for path in modules() if get_room(module_name(path)) in PURE_ROOMS], ids=module_name
)
def test_a_pure_room_does_not_touch_the_world(path: Path) -> None:
    touched = {each.split(".")[0] for each in iter_imports(path)} & IMPURE_MODULES

    assert not touched, f"{module_name(path)} is pure and may not import {', '.join(sorted(touched))}"


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_only_the_clock_asks_for_the_time(path: Path) -> None:
    calls = [
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]

    asked = {"utcnow", "today"} & set(calls)
    reads_now = any(
        isinstance(node, ast.Attribute)
        and node.attr == "now"
        and isinstance(node.value, ast.Name)
        and node.value.id == "datetime"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )

    assert not asked
    assert not reads_now or module_name(path) == "herdbeat.clock"


def test_every_room_stands_on_a_floor() -> None:
    rooms = {get_room(module_name(path)) for path in modules()}

    assert rooms <= set(LAYERS)


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}

    assert not [path for path in modules() if path.stem in drawers]
