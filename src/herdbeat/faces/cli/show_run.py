"""A run, or a beat with its runs, as `show` tells it."""

import json
from datetime import datetime, timedelta

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.durations import measured_duration
from herdbeat.faces.cli.facts import say_facts, say_group, say_headline
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import STATUSES, beat_mark
from herdbeat.faces.cli.show_schedule import run_row
from herdbeat.faces.cli.terminal import Terminal, printed_line
from herdbeat.faces.cli.times import full_moment
from herdbeat.runners.log import Stream
from herdbeat.runners.log_reader import Line, find_log, read_kept, read_log
from herdbeat.service.reasons import skip_words
from herdbeat.service.showing import ShownBeat, ShownRun

TAIL = 20
RESPONSE = 600


def show_run(terminal: Terminal, ledger: Ledger, shown: ShownRun) -> None:
    run, details = shown.run, shown.details
    glyph, word, colour = STATUSES[run.status]
    start, spent = run.began_at, measured_duration(run.spent(ledger.now))
    took = f"took {spent}" if run.finished_at else f"for {spent}"
    say_headline(terminal, f"{short_id(run.id)}  {run.schedule}", terminal.style(f"{glyph} {word}", colour), took)
    node = f"{details.host} (pid {details.pid}), herdbeat {details.version}" if details.host else ""
    facts = [
        ("why", f"{run.source} {run.origin}".strip() + (f", attempt {run.attempt}" if run.attempt > 1 else "")),
        ("due", _moment(ledger, run.due_at)),
        ("started", f"{_moment(ledger, start)}, {measured_duration(max(start - run.due_at, timedelta(0)))} after that"),
        ("ended", _moment(ledger, run.finished_at) if run.finished_at else "still going"),
        ("code", "" if run.code is None else str(run.code)),
        ("error", run.error or ""),
        ("summary", run.summary or ""),
        ("note", details.note),
        ("used", ", ".join(f"{name} {number:g}" for name, number in details.usage.items())),
        ("session", details.session),
        ("response", _cut(json.dumps(details.response, ensure_ascii=False)) if details.response is not None else ""),
        ("beat", f"{short_id(run.beat_id)}, {run.dedup_id}"),
        ("node", node),
        ("log", log_path(ledger, run) or _no_log(ledger, shown)),
    ]
    say_facts(terminal, facts)
    if len(shown.attempts) > 1:
        say_group(terminal, "ATTEMPTS", [run_row(terminal, ledger, each) for each in shown.attempts], shrink=(3, 4))
    _show_tail(terminal, ledger, run)
    terminal.say()
    terminal.say(terminal.style(f"why?  herdbeat explain {short_id(run.id)}", "dim"))


def show_beat(terminal: Terminal, ledger: Ledger, shown: ShownBeat) -> None:
    beat = shown.beat
    glyph, colour = beat_mark(beat)
    many = f" x{beat.count}" if beat.count > 1 else ""
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    say_headline(terminal, f"beat {short_id(beat.id)}  {beat.schedule}", outcome)
    say_facts(
        terminal,
        [
            ("due", _moment(ledger, beat.due_at)),
            ("to", _moment(ledger, beat.last_due_at) if beat.count > 1 else ""),
            ("reason", _reason(beat)),
            ("why", f"{beat.source} {beat.origin}".strip()),
            ("dedup", beat.dedup_id),
            ("settled", _moment(ledger, beat.settled_at) if beat.settled_at else "not yet"),
        ],
    )
    say_group(terminal, "RUNS", [run_row(terminal, ledger, each) for each in shown.runs], shrink=(3, 4))


def log_path(ledger: Ledger, run: RunRecord) -> str | None:
    """None for a run that has printed nothing, or whose log was pruned."""
    path = find_log(ledger.state_dir, run.id)
    return None if path is None else str(path)


def _no_log(ledger: Ledger, shown: ShownRun) -> str:
    if ledger.opened().output_of(shown.run.id) is None:
        return "it has printed nothing" + (" yet" if shown.run.finished_at is None else "")
    return f"all of it is on {shown.details.host}"


def _show_tail(terminal: Terminal, ledger: Ledger, run: RunRecord) -> None:
    lines = _printed(ledger, run)
    if not lines:
        return
    left_out = f", the last {TAIL} of {len(lines)} lines" if len(lines) > TAIL else ""
    terminal.say()
    terminal.say(terminal.style(f"OUTPUT{left_out}", "bold"))
    for line in lines[-TAIL:]:
        colour = {Stream.ERR: "yellow", Stream.NOTE: "dim"}.get(line.stream)
        mark = "!" if line.stream is Stream.ERR else " "
        text = f"  {mark} {printed_line(line.text)}"
        terminal.say(terminal.style(text, colour) if colour else text)


def _printed(ledger: Ledger, run: RunRecord) -> list[Line]:
    path = find_log(ledger.state_dir, run.id)
    if path is not None:
        return read_log(path)
    kept = ledger.opened().output_of(run.id)  # of a run of another node
    return [] if kept is None else read_kept(kept)


def _reason(beat: BeatRecord) -> str:
    words = skip_words(beat.reason)
    return beat.reason if words == beat.reason else f"{beat.reason}: {words}"


def _moment(ledger: Ledger, moment: datetime) -> str:
    return full_moment(moment, ledger.now, ledger.zone)


def _cut(text: str) -> str:
    return text if len(text) <= RESPONSE else f"{text[:RESPONSE]}…"
