"""A schedule, or a target with its schedules, as `show` tells it."""

from datetime import datetime
from pathlib import Path

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, EndpointSpec, Target
from herdbeat.durations import format_duration, measured_duration
from herdbeat.faces.cli.facts import say_facts, say_group, say_headline
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import STATUSES, near_time
from herdbeat.faces.cli.state_marks import last_words, next_words, state_words, strip_words, when_words
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.times import full_moment, left
from herdbeat.service.hints import StandingHint
from herdbeat.service.listing import Listed, Next
from herdbeat.service.showing import ShownSchedule, ShownTarget

PROMPT = 200


def show_target(terminal: Terminal, ledger: Ledger, shown: ShownTarget) -> None:
    target = shown.target
    room = f"{shown.running} of {target.max_concurrent} running"
    say_headline(terminal, target.name, target.kind, room)
    budget = f"{shown.budget}, shared by its schedules" if shown.budget else ""
    say_facts(terminal, [*_target_facts(target), ("budget", budget), ("written", shown.written_at)])
    rows = [
        [
            printable(each.record.label),
            printable(when_words(each)),
            state_words(terminal, each),
            last_words(each, ledger.now),
            next_words(each, ledger.now, ledger.zone),
            strip_words(terminal, each.strip),
        ]
        for each in shown.schedules
    ]
    say_group(terminal, "SCHEDULES", rows, shrink=(1, 0))


def show_schedule(terminal: Terminal, ledger: Ledger, shown: ShownSchedule) -> None:
    listed = shown.listed
    say_headline(
        terminal,
        listed.record.label,
        state_words(terminal, listed),
        printable(when_words(listed)),
        strip_words(terminal, listed.strip),
    )
    say_facts(terminal, [*_target_facts(shown.target), *_schedule_facts(ledger, shown)])
    say_group(terminal, "NEXT", _next_rows(ledger, shown))
    hints = [_hint_row(ledger, each) for each in shown.hints]
    say_group(terminal, "HINTS", hints, shrink=(4,))
    say_group(terminal, "LAST RUNS", [run_row(terminal, ledger, each) for each in shown.runs], shrink=(3, 4))
    rows = [
        [each.key, printable(each.text), terminal.style("default", "dim") if each.is_default else ""]
        for each in shown.policies
    ]
    say_group(terminal, "POLICIES", rows, shrink=(1,))


def run_row(terminal: Terminal, ledger: Ledger, run: RunRecord) -> list[str]:
    glyph, word, colour = STATUSES[run.status]
    spent = measured_duration(run.spent(ledger.now)) + ("" if run.finished_at else "…")
    error = f" {' '.join(printable(run.error).split())}" if run.error else ""
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return [
        short_id(run.id),
        near_time(run.began_at, ledger.now, ledger.zone),
        spent,
        terminal.style(f"{glyph} {word}{error}", colour),
        printable(f"{run.source} {run.origin}".strip() + attempt),
    ]


def _target_facts(target: Target) -> list[tuple[str, str]]:
    match target.spec:
        case CommandSpec() as spec:
            return [("command", " ".join(spec.command)), ("in", _folder(spec.working_directory))]
        case EndpointSpec() as spec:
            return [("request", f"{spec.method} {spec.url}")]
        case CallableSpec() as spec:
            return [("calls", spec.call)]
        case AgentSpec() as spec:
            told = f"{spec.runtime} {spec.model or ''}".strip()
            return [("agent", told), ("command", " ".join(spec.command)), ("in", _folder(spec.working_directory))]


def _folder(written: str) -> str:
    """Each node has the fleet's folder in a place of its own, so that one is not named."""
    if Path(written).is_absolute():
        return written
    return "the fleet's folder" if written == "." else f"{written} (from the fleet's folder)"


def _schedule_facts(ledger: Ledger, shown: ShownSchedule) -> list[tuple[str, str]]:
    record = shown.listed.record
    failures = f"{record.failures} in a row: {record.last_error or 'no words'}" if record.failures else ""
    return [
        ("prompt", _cut(shown.brief.prompt or "")),
        ("written", record.origin),
        ("paused", _paused(ledger, shown.listed)),
        ("disabled", f"by {record.disabled_by}" if record.disabled_by else "" if record.enabled else "in its file"),
        ("broken", record.quarantine or ""),
        ("failures", failures),
        ("skips", _skips(shown.listed)),
        ("last", last_words(shown.listed, ledger.now).strip("—")),
    ]


def _paused(ledger: Ledger, each: Listed) -> str:
    record = each.record
    if not record.paused:
        return ""
    until = next_words(each, ledger.now, ledger.zone) if record.paused_until else "it is resumed"
    reason = f": {record.paused_reason}" if record.paused_reason else ""
    return f"until {until}, by {record.paused_by or 'somebody'}{reason}"


def _skips(each: Listed) -> str:
    record = each.record
    if not record.skips:
        return ""
    what = "the next beat" if record.skips == 1 else f"the next {record.skips} beats"
    return f"{what}, by {record.skips_by or 'somebody'}" + (f": {record.skips_reason}" if record.skips_reason else "")


def _next_rows(ledger: Ledger, shown: ShownSchedule) -> list[list[str]]:
    """Its next times; where there is none to know, the word for it."""
    listed = shown.listed
    if listed.next is not Next.AT:
        first = [[next_words(listed, ledger.now, ledger.zone), _moment(ledger, listed.at), ""]]
        return first if listed.next is not Next.RESUMES else [[*first[0][:2], "the pause ends"], *_times(ledger, shown)]
    return _times(ledger, shown)


def _times(ledger: Ledger, shown: ShownSchedule) -> list[list[str]]:
    source = shown.listed.record.next_source or ""
    return [
        [left(at, ledger.now), _moment(ledger, at), "" if index or shown.listed.next is not Next.AT else source]
        for index, at in enumerate(shown.instants)
    ]


def _moment(ledger: Ledger, at: datetime | None) -> str:
    return "" if at is None else full_moment(at, ledger.now, ledger.zone)


def _hint_row(ledger: Ledger, each: StandingHint) -> list[str]:
    hint = each.record
    what = f"every {format_duration(hint.every)}" if hint.every is not None else f"at {_moment(ledger, hint.at)}"
    ends = f"until {near_time(hint.expires_at, ledger.now, ledger.zone)}"
    return [what, printable(hint.origin), ends, each.state, printable(hint.reason)]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= PROMPT else f"{flat[:PROMPT]}…"
