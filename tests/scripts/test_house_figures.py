import ast
from pathlib import Path

from scripts.house_figures import (
    Module,
    broad_excepts,
    code_lines,
    read_modules,
    row_slices,
    single_importers,
    untyped_signatures,
)

TEXT = '''"""A docstring."""

from typing import Any

# a comment
def told(rows: dict[str, Any]) -> dict[str, Any]:
    """Another."""
    try:
        return {"a": [*rows["b"][1:2]]}
    except (ValueError, Exception):
        raise
'''


def module(folder: Path) -> Module:
    path = folder / "told.py"
    path.write_text(TEXT, encoding="utf-8")
    return Module(name="told", path=path, tree=ast.parse(TEXT))


def test_code_is_what_is_left_without_comments_docstrings_and_imports(tmp_path: Path) -> None:
    assert code_lines(module(tmp_path)) == 5


def test_what_is_looked_for_is_found() -> None:
    """In a file of the tree itself, for places are told relative to it."""
    here = Path(__file__).resolve()
    modules = {"told": Module(name="told", path=here, tree=ast.parse(TEXT))}

    assert [each.rpartition(":")[2] for each in broad_excepts(modules)] == ["10"]
    assert [each.rpartition(":")[2] for each in untyped_signatures(modules)] == ["6  told", "6  told"]
    assert len(row_slices(modules)) == 1


def test_an_import_for_annotations_or_inside_a_function_loads_nothing() -> None:
    here = Path(__file__).resolve()
    user = """
import typing
import a
if typing.TYPE_CHECKING:
    import b, c
def use():
    import c
"""
    texts = {"user": user, "a": "", "b": "", "c": ""}
    modules = {name: Module(name=name, path=here, tree=ast.parse(text)) for name, text in texts.items()}

    endings = [row.rpartition("by user")[2].strip() for row in single_importers(modules)]

    assert endings == ["", "(type)", "(lazy)"]


def test_every_module_is_read() -> None:
    assert {"herdbeat", "herdbeat.__main__", "herdbeat.domain.codec"} <= read_modules().keys()
