"""The layers of ARCHITECTURE.md: imports go downwards only, and neighbours do not import each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import herdbeat

SOURCE = Path(herdbeat.__file__).parent
LAYER_0_ORDER = (
    "failpoints",
    "error_codes",
    "errors",
    "clock",
    "durations",
    "timestamps",
    "domain",
    "events",
)
"""Layer 0, from left to right: each may import those to its left."""

LAYERS = {
    **dict.fromkeys(LAYER_0_ORDER, 0),
    **dict.fromkeys(("triggers", "governor", "prompts", "rules"), 1),
    **dict.fromkeys(("store", "runners", "work", "planner"), 2),
    **dict.fromkeys(("scheduler", "config"), 3),
    **dict.fromkeys(("service", "demo"), 4),
    "bootstrap": 4.5,
    "control_socket": 4.6,
    **dict.fromkeys(("cli", "python_api"), 5),
    "faces": 5.5,
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
    """Yield imported modules: `from herdbeat import triggers` imports herdbeat.triggers."""
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
        return imported == f"herdbeat.{there}.base"  # the contract, not its implementations
    return LAYERS[there] < LAYERS[here]


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
def test_only_the_clock_reads_the_time(path: Path) -> None:
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


def test_every_package_has_a_layer() -> None:
    rooms = {get_room(module_name(path)) for path in modules()}

    assert rooms <= set(LAYERS)


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}

    assert not [path for path in modules() if path.stem in drawers]
