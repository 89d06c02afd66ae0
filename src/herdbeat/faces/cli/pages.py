"""A page of the ledger, the newest first: what every command that lists its rows has in common."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from herdbeat.domain.ids import from_short_id, short_id
from herdbeat.errors import UsageError, shown
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given, guess
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, width
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import Json, page_object


class Numbered(Protocol):
    """A row of the ledger. The id of the last one on a page is the cursor to the next."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=Numbered)
R_contra = TypeVar("R_contra", bound=Numbered, contravariant=True)
E = TypeVar("E", bound=StrEnum)


class Row(Protocol[R_contra]):
    """Writes a row of the ledger as the cells of a table."""

    def __call__(self, terminal: Terminal, ledger: Ledger, each: R_contra, /, *, is_brief: bool) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of all rows is wanted: `limit` is one more than the page has, which tells whether there is another."""

    since: datetime | None
    before: int | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[R]):
    """What is listed, and how a row looks: brief where the screen is too narrow for the whole.

    `shrink` are the columns that give way if that is not enough, in this order.
    """

    noun: str
    find: Callable[[Ledger, Window], list[R]]
    as_object: Callable[[R], Json]
    headings: list[str]
    row: Row[R]
    shrink: tuple[int, ...]
    usual: int = 50


def show_page(given: Given, world: World, listing: Listing[R]) -> int:
    with open_ledger(given, world) as ledger:
        rows = wanted_rows(given.value(flags.COUNT), listing.usual)
        since, before = given.value(flags.SINCE), read_cursor(given.value(flags.CURSOR))
        start = None if since is None else read_past(since, ledger.now, ledger.zone)
        found = (
            [] if ledger.reader is None else listing.find(ledger, Window(since=start, before=before, limit=rows + 1))
        )
        cursor = short_id(found[rows - 1].id) if len(found) > rows else None
        if given.has(flags.JSON):
            page = page_object([listing.as_object(each) for each in found[:rows]], cursor)
            world.terminal.say(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, listing, found[:rows], cursor)
    return 0


def read_cursor(text: str | None) -> int | None:
    """Where the page before ended."""
    number = from_short_id(text) if text is not None else None
    if text is not None and (number is None or number >= 1 << 62):
        raise UsageError(f'"{shown(text)}" is not a cursor.', hint="Take the next_cursor of the page before.")
    return number


def one_of(option: flags.Option, text: str | None, words: type[E]) -> E | None:
    """The value of an option that takes one of a few words. Raises UsageError, which guesses."""
    if text is None:
        return None
    try:
        return words(text.lower())
    except ValueError:
        near = guess(text, [each.value for each in words])
        hint = f'Did you mean "{near}"?' if near else f"Write one of {', '.join(words)}."
        raise UsageError(f'{option.names[0]} cannot be "{shown(text)}".', hint=hint) from None


def _show(terminal: Terminal, ledger: Ledger, listing: Listing[R], found: list[R], cursor: str | None) -> None:
    for line in _table(terminal, ledger, listing, found) if found else ():
        terminal.say(line)
    if cursor is not None:
        terminal.remark(f"There are more: --cursor {cursor}, or a larger -n.")
    elif not found:
        terminal.remark(NEVER if ledger.reader is None else f"No {listing.noun} there.")


def _table(terminal: Terminal, ledger: Ledger, listing: Listing[R], found: list[R]) -> list[str]:
    whole, brief = (
        [listing.headings, *(listing.row(terminal, ledger, each, is_brief=is_brief) for each in found)]
        for is_brief in (False, True)
    )
    lines = terminal.lines(whole)
    is_fitting = terminal.columns is None or max(map(width, lines)) <= terminal.columns
    return lines if is_fitting else terminal.lines(brief, shrink=listing.shrink)
