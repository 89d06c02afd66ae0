"""JSON Schema for editors, and the tables for the reference: the same that validation uses."""

import re
from collections.abc import Iterator

from herdbeat.config.schema.fleet import FLEET
from herdbeat.config.schema.table import Table
from herdbeat.config.schema.targets import AGENT
from herdbeat.config.schema.types import FieldType, JsonSchema

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOT_TABLES = {"fleet": FLEET, "agent": AGENT}


def build_json_schema(schema_name: str) -> JsonSchema:
    """Return the schema of a `fleet` file or of an `agent` file. Each table is defined once and referred to."""
    definitions: dict[str, object] = {}
    root = _hoist_definitions(_ROOT_TABLES[schema_name].to_json_schema(), definitions)
    assert isinstance(root, dict)
    return {"$schema": JSON_SCHEMA_DIALECT, "title": f"herdbeat {schema_name} file", **root, "$defs": definitions}


def list_tables() -> list[Table]:
    """Return every table of our own files, in the order of the fleet file. Tables of one title are one."""
    tables: dict[str, Table] = {}
    for table in _iter_tables(FLEET):
        tables.setdefault(table.title, table)
    return list(tables.values())


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
