"""JSON Schema for editors and rows for the reference, both from the tables that validation uses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from herdbeat.config.schema.fleet import FLEET
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.targets import AGENT
from herdbeat.config.schema.types import FieldType, JsonSchema

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOT_TABLES = {"fleet": FLEET, "agent": AGENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key for the reference: its table, type, default and meaning."""

    where: str
    name: str
    value_type: str
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    is_required: bool = False
    unsupported_reason: str = ""


def build_json_schema(schema_name: str) -> JsonSchema:
    """Return the schema of a `fleet` file or of an `agent` file. Each table is defined once and referred to."""
    definitions: dict[str, object] = {}
    root = _hoist_definitions(_ROOT_TABLES[schema_name].to_json_schema(), definitions)
    assert isinstance(root, dict)
    return {"$schema": JSON_SCHEMA_DIALECT, "title": f"herdbeat {schema_name} file", **root, "$defs": definitions}


def list_key_rows() -> tuple[KeyRow, ...]:
    """Return every key of our own files, table by table, in the order of the fleet file."""
    tables: dict[str, Table] = {}
    for table in _iter_tables(FLEET):
        tables.setdefault(table.title, table)
    return tuple(build_key_row(table, key) for table in tables.values() for key in table.keys)


def build_key_row(table: Table, key: Field[object]) -> KeyRow:
    return KeyRow(
        where=table.title,
        name=key.name,
        value_type=key.field_type.describe(),
        default=key.default_text,
        meaning=key.meaning,
        aliases=key.aliases,
        is_required=key.required,
        unsupported_reason=key.unsupported_reason,
    )


def _iter_tables(field_type: FieldType[object]) -> Iterator[Table]:
    """Yield the type, if it is a table, and every table below it."""
    if isinstance(field_type, Table):
        yield field_type
    for inner in field_type.inner_types():
        yield from _iter_tables(inner)


def _hoist_definitions(schema: object, definitions: dict[str, object]) -> object:
    """Return the schema with its tables as references to definitions: the schedule alone is used in five places."""
    if isinstance(schema, list):
        return [_hoist_definitions(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _hoist_definitions(item, definitions) for name, item in schema.items()}
    if "properties" not in inner or not isinstance(inner.get("title"), str):
        return inner
    name = re.sub(r"^(an?) ", "", str(inner["title"]).lower()).replace(" ", "-").replace("'", "")
    description = {"description": inner.pop("description")} if isinstance(inner.get("description"), str) else {}
    definitions.setdefault(name, inner)
    return {"$ref": f"#/$defs/{name}", **description}
