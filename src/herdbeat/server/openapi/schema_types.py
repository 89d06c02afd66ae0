"""Builders of JSON Schema, short enough that the schemas read as a table."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

JsonSchema = dict[str, Any]

ANY: JsonSchema = {}
TEXT: JsonSchema = {"type": "string"}
WHOLE: JsonSchema = {"type": "integer"}
NUMBER: JsonSchema = {"type": "number"}
BOOL: JsonSchema = {"type": "boolean"}
FREE: JsonSchema = {"type": "object"}


def example(schema: JsonSchema, value: object) -> JsonSchema:
    return {**schema, "examples": [value]}


ID = example(TEXT, "7f3k")
TIME = {**TEXT, "format": "date-time", "examples": ["2026-03-26T13:04:00Z"]}
LABEL = example(TEXT, "triage/check-issues")
ORIGIN = example(TEXT, "human:you")
DURATION = example(TEXT, "5m")


def nullable(schema: JsonSchema) -> JsonSchema:
    """The value, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": schema}


def one_of(values: type[StrEnum] | Iterable[str]) -> JsonSchema:
    return {"type": "string", "enum": [str(each) for each in values]}


def ref(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


def fields(*, optional: Iterable[str] = (), **properties: JsonSchema) -> JsonSchema:
    """An object whose keys are all there, except for the optional ones. `from_` is `from`."""
    named = {name.removesuffix("_"): schema for name, schema in properties.items()}
    left_out = set(optional)
    return {"type": "object", "properties": named, "required": [name for name in named if name not in left_out]}


def extend(base: JsonSchema, *, optional: Iterable[str] = (), **properties: JsonSchema) -> JsonSchema:
    """The same object with more keys."""
    more = fields(optional=optional, **properties)
    required = [*(name for name in base["required"] if name not in more["properties"]), *more["required"]]
    return {"type": "object", "properties": {**base["properties"], **more["properties"]}, "required": required}


def items(schema: JsonSchema) -> JsonSchema:
    return fields(items=array_of(schema))


def page(schema: JsonSchema) -> JsonSchema:
    return fields(items=array_of(schema), next_cursor=nullable(ID), has_more=BOOL)


def counted_page(schema: JsonSchema) -> JsonSchema:
    """A page whose rows are counted if `count` is asked for."""
    return extend(page(schema), optional=("count", "count_is_exact"), count=WHOLE, count_is_exact=BOOL)
