"""A page of the ledger, the newest first: what every command that lists its rows has in common."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.terminal import Terminal, display_width
from herdbeat.cli.output.time_parse import parse_past_time
from herdbeat.cli.parser import ParsedArgs, closest_match
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.service.serialize import JsonObject, serialize_page


class HasId(Protocol):
    """A row of the ledger. The id of the last one on a page is the cursor to the next."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=HasId)
R_contra = TypeVar("R_contra", bound=HasId, contravariant=True)
E = TypeVar("E", bound=StrEnum)


class RowFormatter(Protocol[R_contra]):
    """Writes a row of the ledger as the cells of a table."""

    def __call__(self, terminal: Terminal, handle: FleetHandle, each: R_contra, /, *, is_brief: bool) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which part of all rows is wanted: `limit` is one more than the page has, which tells whether there is another."""

    since: datetime | None
    before: int | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingSpec(Generic[R]):
    """What is listed, and how a row looks: brief where the screen is too narrow for the whole.

    `shrink` are the columns that give way if that is not enough, in this order.
    """

    noun: str
    find: Callable[[FleetHandle, PageRequest], list[R]]
    as_object: Callable[[R], JsonObject]
    headings: list[str]
    row: RowFormatter[R]
    shrink: tuple[int, ...]
    default_count: int = 50


def show_page(args: ParsedArgs, context: Context, spec: ListingSpec[R]) -> int:
    with open_fleet_handle(args, context) as handle:
        rows = parse_row_count(args.value(flags.COUNT), spec.default_count)
        since, before = args.value(flags.SINCE), parse_cursor(args.value(flags.CURSOR))
        start = None if since is None else parse_past_time(since, handle.now, handle.zone)
        found = (
            [] if handle.reader is None else spec.find(handle, PageRequest(since=start, before=before, limit=rows + 1))
        )
        cursor = format_short_id(found[rows - 1].id) if len(found) > rows else None
        if args.has(flags.JSON):
            page = serialize_page([spec.as_object(each) for each in found[:rows]], cursor)
            context.terminal.print(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show_rows(context.terminal, handle, spec, found[:rows], cursor)
    return 0


def parse_cursor(text: str | None) -> int | None:
    """Where the page before ended."""
    number = parse_short_id(text) if text is not None else None
    if text is not None and (number is None or number >= 1 << 62):
        raise UsageError(
            f'"{truncate_for_message(text)}" is not a cursor.', hint="Take the next_cursor of the page before."
        )
    return number


def parse_choice(option: flags.Option, text: str | None, words: type[E]) -> E | None:
    """The value of an option that takes one of a few words. Raises UsageError, which guesses."""
    if text is None:
        return None
    try:
        return words(text.lower())
    except ValueError:
        suggestion = closest_match(text, [each.value for each in words])
        hint = f'Did you mean "{suggestion}"?' if suggestion else f"Write one of {', '.join(words)}."
        raise UsageError(f'{option.names[0]} cannot be "{truncate_for_message(text)}".', hint=hint) from None


def _show_rows(
    terminal: Terminal, handle: FleetHandle, spec: ListingSpec[R], found: list[R], cursor: str | None
) -> None:
    for line in _format_table(terminal, handle, spec, found) if found else ():
        terminal.print(line)
    if cursor is not None:
        terminal.info(f"There are more: --cursor {cursor}, or a larger -n.")
    elif not found:
        terminal.info(NEVER_RAN_NOTICE if handle.reader is None else f"No {spec.noun} there.")


def _format_table(terminal: Terminal, handle: FleetHandle, spec: ListingSpec[R], found: list[R]) -> list[str]:
    whole, brief = (
        [spec.headings, *(spec.row(terminal, handle, each, is_brief=is_brief) for each in found)]
        for is_brief in (False, True)
    )
    lines = terminal.format_table(whole)
    is_fitting = terminal.columns is None or max(map(display_width, lines)) <= terminal.columns
    return lines if is_fitting else terminal.format_table(brief, shrink=spec.shrink)
