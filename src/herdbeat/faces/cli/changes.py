"""`herdbeat changes`: who changed what, the newest first."""

import json
import re
from functools import partial

from herdbeat.domain.change import Change, Facts
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import near_time, short_label
from herdbeat.faces.cli.pages import Listing, Window, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.moments import parse_moment
from herdbeat.service.history import change_object, find_changes

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def run(given: Given, world: World) -> int:
    listing = Listing(
        noun="changes",
        find=partial(_find, given.word(0)),
        as_object=change_object,
        headings=["WHEN", "WHO", "WHAT", "OF", "HOW"],
        row=_row,
        shrink=(3, 4, 1),
    )
    return show_page(given, world, listing)


def _find(selector: str | None, ledger: Ledger, window: Window) -> list[Change]:
    return find_changes(ledger.opened(), selector, since=window.since, before=window.before, limit=window.limit)


def _row(terminal: Terminal, ledger: Ledger, change: Change, *, is_brief: bool) -> list[str]:  # noqa: ARG001
    when = near_time(change.at, ledger.now, ledger.zone)
    subject = printable(short_label(change.subject))
    return [when, printable(change.who), change.what, subject, printable(_how(ledger, change.before, change.after))]


def _how(ledger: Ledger, before: Facts | None, after: Facts | None) -> str:
    """Only what differs: `until 16:04 → 18:04`."""
    old, new = ({name: _value(ledger, value) for name, value in (facts or {}).items()} for facts in (before, after))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, "") != new.get(name, "")]
    return ", ".join(_difference(name, old.get(name, ""), new.get(name, "")) for name in names)


def _difference(name: str, was: str, will: str) -> str:
    return f"{name} {was} → {will or '–'}" if was else f"{name} {will}"


def _value(ledger: Ledger, value: object) -> str:
    """Empty for what is not there, or says nothing. A moment is told as on every other screen."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return near_time(parse_moment(value), ledger.now, ledger.zone) if _MOMENT.fullmatch(value) else value
