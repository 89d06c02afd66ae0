"""A page of the ledger, newest first: what `beats`, `runs` and `changes` have in common."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import (
    NEVER_RAN_NOTICE,
    FleetHandle,
    not_running_notice,
    open_fleet_handle,
    parse_row_count,
)
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.service.serialize import JsonObject, serialize_page
from herdbeat.time_phrases import parse_past_time

MAX_CAUSE_CHARS = 300
"""Characters of a cause that a list shows; `show` and the log have the rest."""


class HasId(Protocol):
    """A row of the ledger. The id of the last one on a page is the cursor to the next."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=HasId)
R_contra = TypeVar("R_contra", bound=HasId, contravariant=True)


class RowFormatter(Protocol[R_contra]):
    """Writes a row of the ledger as the cells of a table."""

    def __call__(self, terminal: Terminal, handle: FleetHandle, each: R_contra, /, *, is_brief: bool) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingSpec(Generic[R]):
    """What is listed, and how a row looks: brief if the screen is too narrow for the full row.

    `find` takes the reader, `since`, `before` and `limit`. `shrink` are the columns that are shortened if that is not
    enough, in this order. `cause` is a text that a brief row leaves out: it follows on lines of its own, uncut.
    `fold` returns the rows that the table shows; `describe_folded` says how many it leaves out.
    `is_open` is true for a row that only a running node can end: without one, the first line says so.
    """

    noun: str
    find: Callable[..., list[R]]
    as_object: Callable[[R], JsonObject]
    headings: list[str]
    row: RowFormatter[R]
    shrink: tuple[int, ...]
    cause: Callable[[R], str] = lambda _: ""
    fold: Callable[[list[R]], list[R]] = lambda rows: rows
    describe_folded: Callable[[int], str] = str
    is_open: Callable[[R], bool] = lambda _: False
    default_count: int = 50


def list_page(args: ParsedArgs, context: Context, spec: ListingSpec[R]) -> Output:
    """Return the page that the flags ask for. Raises UsageError for a flag, and what `spec.find` raises."""
    handle = open_fleet_handle(args, context)
    limit = parse_row_count(args.value(flags.COUNT), spec.default_count)
    since, before = args.value(flags.SINCE), parse_cursor(args.value(flags.CURSOR))
    start = None if since is None else parse_past_time(since, handle.now, handle.zone)
    # One row more than the page shows tells whether there is another page.
    found = [] if handle.reader is None else spec.find(handle.reader, since=start, before=before, limit=limit + 1)
    cursor = format_short_id(found[limit - 1].id) if len(found) > limit else None
    rows = found[:limit]
    lines = _page_lines(context.terminal, handle, spec, rows, cursor)
    return Output(json=lambda: serialize_page([spec.as_object(row) for row in rows], cursor), lines=lines)


def parse_cursor(text: str | None) -> int | None:
    """Return the id at which the page before ended. Raises UsageError."""
    number = parse_short_id(text) if text is not None else None
    if text is not None and (number is None or number >= 1 << 62):
        message = f'"{truncate_for_message(text)}" is not a cursor.'
        raise UsageError(message, hint="Use the next_cursor of the previous page.")
    return number


def _page_lines(
    terminal: Terminal, handle: FleetHandle, spec: ListingSpec[R], rows: list[R], cursor: str | None
) -> Iterator[str]:
    shown = spec.fold(rows)
    if any(map(spec.is_open, rows)) and (notice := not_running_notice(handle)) is not None:
        yield Notice(notice)
    if rows:
        yield from _format_table(terminal, handle, spec, shown)
    if len(shown) < len(rows):
        yield Notice(spec.describe_folded(len(rows) - len(shown)))
    if cursor is not None:
        yield Notice(f"There are more rows: use --cursor {cursor}, or a larger -n.")
    elif not rows:
        yield Notice(NEVER_RAN_NOTICE if handle.reader is None else f"No matching {spec.noun}.")


def _format_table(terminal: Terminal, handle: FleetHandle, spec: ListingSpec[R], found: list[R]) -> list[str]:
    whole, brief = (
        [spec.headings, *(spec.row(terminal, handle, each, is_brief=is_brief) for each in found)]
        for is_brief in (False, True)
    )
    lines = terminal.format_table(whole)
    if terminal.fits(lines):
        return lines
    heading, *rows = terminal.format_table(brief, shrink=spec.shrink)
    pairs = zip(rows, found, strict=True)
    return [heading, *(line for row, each in pairs for line in (row, *_cause_lines(terminal, spec.cause(each))))]


def _cause_lines(terminal: Terminal, cause: str) -> list[str]:
    return terminal.wrap(truncate_for_message(cause, MAX_CAUSE_CHARS), "      ") if cause else []
