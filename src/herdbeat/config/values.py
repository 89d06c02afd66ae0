"""Resolved values with their origin, for `config show`. Secrets stay hidden, their origin does not."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from urllib.parse import urlsplit

from herdbeat.config.forms import Hours
from herdbeat.config.tables import Key, Table
from herdbeat.durations import format_duration
from herdbeat.errors import Place
from herdbeat.located import Located, Plain
from herdbeat.moments import format_moment

HIDDEN = "***"
BUILT_IN = "default"

_SECRET_KEY = re.compile(r"token|secret|passw|authorization|api_?key|cookie|credential", re.IGNORECASE)
_SECRET_BLOCK = re.compile(r"(^|\.)(headers|env)(\.|\[|$)", re.IGNORECASE)
_NAMES_A_VARIABLE = re.compile(r"_env$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One resolved value. `origin` is the place that says so, or the words that name the default."""

    path: str
    value: Plain
    origin: Place | str


def origin_of(node: Located) -> Place | str:
    if node.place.path.startswith("defaults."):
        return f"defaults at {node.place.file}:{node.place.line}"
    return node.place


def written_values(node: Located, path: str) -> Iterator[Value]:
    """Every value that is written below a node. Lists are one value."""
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from written_values(child, f"{path}.{name}" if path else name)
        return
    yield Value(path=path, value=masked(node, path), origin=origin_of(node))


def default_values(table: Table, node: Located, path: str, leave_out: Collection[str] = frozenset()) -> Iterator[Value]:
    """The defaults of a table's keys that are not written, in the words of the table."""
    for key in table.keys:
        if key.name in leave_out:
            continue
        here = f"{path}.{key.name}" if path else key.name
        child = node.child(key.name)
        if isinstance(key.shape, Table) and (child is not None or not key.default):
            yield from default_values(key.shape, child or Located({}, node.place), here)
        elif child is None and _has_default(key):
            yield Value(path=here, value=key.default, origin=BUILT_IN)


def _has_default(key: Key[object]) -> bool:
    return bool(key.default) and not key.not_served


def masked(node: Located, path: str) -> Plain:
    """The bare data, with what may be a secret hidden."""
    if isinstance(node.value, list):
        return [masked(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
    if isinstance(node.value, dict):
        return {name: masked(child, f"{path}.{name}") for name, child in node.value.items()}
    return HIDDEN if _is_secret(node, path) else without_userinfo(node.value)


def _is_secret(node: Located, path: str) -> bool:
    name = path.rpartition(".")[2]
    if _NAMES_A_VARIABLE.search(name) or not isinstance(node.value, str):
        return False
    if _SECRET_KEY.search(name) or _SECRET_KEY.search(node.expanded):
        return True
    # An address from a variable may carry its secret in the path, as chat webhooks do.
    return bool(node.expanded) and bool(_SECRET_BLOCK.search(path) or name in ("url", "store"))


def without_userinfo(value: Plain) -> Plain:
    """An address without the password that may stand in it."""
    if not isinstance(value, str) or "@" not in value or "://" not in value:
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        return HIDDEN
    if parts.password is None:
        return value
    _, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{parts.username}:{HIDDEN}@{host}").geturl()


def display(value: object) -> Plain:
    """A typed value as it is written in a file."""
    if isinstance(value, tuple | list) and not isinstance(value, Hours):
        return [display(item) for item in value]
    if isinstance(value, dict):
        return {str(name): display(item) for name, item in value.items()}
    return _display_one(value)


def _display_one(value: object) -> Plain:
    match value:
        case Enum():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_moment(value)
        case Hours():
            return f"{value.opens:%H:%M}-{value.closes:%H:%M}"
        case _:
            return str(value)  # a zone is its name, a jitter its share
