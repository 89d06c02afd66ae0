"""`herdbeat logs`: what runs have printed, and with -f what they print now. It looks at files and ledger alone, so it
does not matter which process runs the fleet, or whether one does."""

import json
import platform
import time
from collections.abc import Iterable
from datetime import datetime
from zlib import crc32

from herdbeat.domain.ids import short_id
from herdbeat.durations import measured_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import STATUSES
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, printable, printed_line
from herdbeat.faces.cli.world import World
from herdbeat.service.listing import unknown_name
from herdbeat.service.questions import find_run
from herdbeat.service.run_logs import Entry, LogFeed, Voice, Wanted, entry_object
from herdbeat.service.selecting import parts_of
from herdbeat.store.lock import holder_of
from herdbeat.store.looking import Look

NAMED = 3
"""Runs of other nodes that are named, when many are going."""

USUAL = 100
FOLLOWED = 10
"""Lines of the past before a follower goes on, as `tail -f` does."""

LOOK = 0.1
REST = 0.5
"""Seconds between two looks: while something is being said, and while nothing is."""

_COLOURS = ("cyan", "green", "blue", "yellow")


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        wanted = _wanted(given, ledger)
        feed = LogFeed(ledger.opened(), ledger.state_dir, wanted)
        past = feed.past(ledger.now, since=_since(given, ledger), lines=_lines(given, wanted))
        _show(given, world.terminal, ledger, past)
        if ledger.is_shared:
            _remark_elsewhere(world, ledger, feed)
        if given.has(flags.FOLLOW):
            _follow(given, world, ledger, feed)
        elif not past:
            world.terminal.remark("No output there.")
    return 0


def _remark_elsewhere(world: World, ledger: Ledger, feed: LogFeed) -> None:
    """A log is written where its run is: until that has ended, its words come here a little later."""
    here = (platform.node(), holder_of(ledger.state_dir))
    for run in feed.unheard[:NAMED]:
        ran = ledger.opened().details(run.id)
        if (ran.host, ran.pid) != here:
            what = f"{printable(run.schedule)} {short_id(run.id)} runs on {printable(ran.host)} (pid {ran.pid})"
            world.terminal.remark(f"{what}; what it says comes here every few seconds.")


def _wanted(given: Given, ledger: Ledger) -> Wanted:
    """A name comes before an id: a target may well be called `beef`."""
    reader = ledger.opened()
    names, runs = [], []
    for word in given.words:
        target, name = parts_of(word)
        if reader.find(Look(now=ledger.now, names=(f"{target}/{name or '*'}",), limit=1)):
            names.append(word)
        elif (run := find_run(reader, word)) is not None:
            runs.append(run.id)
        else:
            raise unknown_name(reader, word)
    return Wanted(names=tuple(names), runs=tuple(runs))


def _since(given: Given, ledger: Ledger) -> datetime | None:
    since = given.value(flags.SINCE)
    return None if since is None else read_past(since, ledger.now, ledger.zone)


def _lines(given: Given, wanted: Wanted) -> int | None:
    """Of one run, or since a moment, all; else the last so many."""
    count = given.value(flags.COUNT)
    if count is None and (given.value(flags.SINCE) is not None or (wanted.runs and not wanted.names)):
        return None
    return wanted_rows(count, FOLLOWED if given.has(flags.FOLLOW) else USUAL)


def _follow(given: Given, world: World, ledger: Ledger, feed: LogFeed) -> None:
    """Until Ctrl+C, or until the runs that were named have ended."""
    if ledger.holder is None:
        world.terminal.remark("scheduler: not running. Waiting for: herdbeat up")
    while not feed.is_over:
        entries = feed.more(ledger.clock.now())
        _show(given, world.terminal, ledger, entries)
        world.terminal.out.flush()
        time.sleep(LOOK if entries or feed.is_watching else REST)


def _show(given: Given, terminal: Terminal, ledger: Ledger, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if given.has(flags.JSONL):
            terminal.say(json.dumps(entry_object(entry), ensure_ascii=False))
        else:
            terminal.say(_line(terminal, ledger, entry))


def _line(terminal: Terminal, ledger: Ledger, entry: Entry) -> str:
    """14:02:13 triage 7f3k   what it said"""
    target, _ = parts_of(entry.run.schedule)
    colour = _COLOURS[crc32(target.encode()) % len(_COLOURS)]
    local = entry.at.astimezone(ledger.zone)
    is_today = local.date() == ledger.now.astimezone(ledger.zone).date()
    at = terminal.style(f"{local:%H:%M:%S}" if is_today else f"{local:%d %b %H:%M:%S}", "dim")
    whose = terminal.style(f"{printable(entry.run.schedule)} {short_id(entry.run.id)}", colour)
    return f"{at} {whose} {_said(terminal, entry)}".rstrip()


def _said(terminal: Terminal, entry: Entry) -> str:
    text = printed_line(entry.text)
    match entry.voice:
        case Voice.OUT:
            return f"  {text}"
        case Voice.ERR:
            return f"{terminal.style('!', 'yellow')} {text}"
        case Voice.NOTE:
            return terminal.style(f"· {text}", "dim")
        case Voice.STARTED:
            return f"{terminal.style('▶', 'cyan')} {text}"
        case Voice.ENDED:
            return _ending(terminal, entry, " ".join(text.split()))


def _ending(terminal: Terminal, entry: Entry, error: str) -> str:
    glyph, word, colour = STATUSES[entry.run.status]
    spent = f" {measured_duration(entry.run.spent(entry.at))}"
    return f"{terminal.style(f'{glyph} {word}', colour)}{spent}" + (f"   {error}" if error else "")
