"""JSON Schema for editors and rows for the reference, both from the tables that checking uses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from herdbeat.config.keys.fleet import FLEET
from herdbeat.config.keys.targets import AGENT
from herdbeat.config.shapes import JsonSchema, Shape
from herdbeat.config.tables import Key, Table

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ROOTS = {"fleet": FLEET, "agent": AGENT}
WHICH = tuple(_ROOTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key for the reference: where it may be written, what it is, what it means."""

    where: str
    name: str
    form: str
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    is_required: bool = False
    not_served: str = ""


def json_schema(which: str) -> JsonSchema:
    """The schema of a `fleet` file or of an `agent` file. Each table is defined once and referred to."""
    definitions: dict[str, object] = {}
    root = _hoisted(_ROOTS[which].schema(), definitions)
    assert isinstance(root, dict)
    return {"$schema": DRAFT, "title": f"herdbeat {which} file", **root, "$defs": definitions}


def keys() -> tuple[KeyRow, ...]:
    """Every key of our own files, table by table, in the order of the fleet file."""
    tables: dict[str, Table] = {}
    for table in _tables(FLEET):
        tables.setdefault(table.title, table)
    return tuple(key_row(table, key) for table in tables.values() for key in table.keys)


def key_row(table: Table, key: Key[object]) -> KeyRow:
    return KeyRow(
        where=table.title,
        name=key.name,
        form=key.shape.expected(),
        default=key.default,
        meaning=key.meaning,
        aliases=key.aliases,
        is_required=key.required,
        not_served=key.not_served,
    )


def _tables(shape: Shape[object]) -> Iterator[Table]:
    """The shape, if it is a table, and every table below it."""
    if isinstance(shape, Table):
        yield shape
    for inner in shape.inner():
        yield from _tables(inner)


def _hoisted(schema: object, definitions: dict[str, object]) -> object:
    """Tables become definitions: the schedule alone stands in five places."""
    if isinstance(schema, list):
        return [_hoisted(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _hoisted(item, definitions) for name, item in schema.items()}
    if "properties" not in inner or not isinstance(inner.get("title"), str):
        return inner
    name = re.sub(r"^(an?) ", "", str(inner["title"]).lower()).replace(" ", "-").replace("'", "")
    said = {"description": inner.pop("description")} if isinstance(inner.get("description"), str) else {}
    definitions.setdefault(name, inner)
    return {"$ref": f"#/$defs/{name}", **said}
