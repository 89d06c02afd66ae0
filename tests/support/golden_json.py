"""Golden JSON: compares what leaves the process, or is stored, with a file in the repository.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest with the test file, and read the difference. A difference that
comes only from a rename is a mistake: ledgers and programs of users have the old word.
"""

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def check_golden(file: Path, data: object) -> None:
    """Fail unless the file has exactly this JSON."""
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("HERDBEAT_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.name} is written anew: read it, then run again without the variable")
    assert text == file.read_text(encoding="utf-8")


def find_unfilled_fields(values: Iterable[Any]) -> list[str]:
    """Return the fields that have their default in all values of their class: a golden file does not cover them."""
    filled: dict[type[Any], set[str]] = {}
    for value in _iter_dataclasses(list(values)):
        kept = filled.setdefault(type(value), set())
        kept |= {each.name for each in dataclasses.fields(value) if getattr(value, each.name) != _field_default(each)}
    return [
        f"{kind.__name__}.{each.name}"
        for kind, kept in filled.items()
        for each in dataclasses.fields(kind)
        if each.init and each.name not in kept
    ]


def _field_default(field: "dataclasses.Field[Any]") -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _iter_dataclasses(value: Any) -> Iterable[Any]:
    """Yield every dataclass inside a value, and the value itself. A trigger is stored by its options, not by its
    fields.
    """
    if isinstance(value, list | tuple):
        for each in value:
            yield from _iter_dataclasses(each)
    elif dataclasses.is_dataclass(value) and not hasattr(value, "next_time"):
        yield value
        for field in dataclasses.fields(value):
            yield from _iter_dataclasses(getattr(value, field.name))
