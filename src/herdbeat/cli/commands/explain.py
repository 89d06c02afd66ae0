"""`herdbeat explain`: why a schedule runs next when it does, why a run happened, why nothing ran at a moment."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, choose_schedule, not_running_notice, open_fleet_handle
from herdbeat.cli.output.details import fold_parts
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.symbols import format_cause, format_time
from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.cli.output.time_format import format_clock, format_full_time
from herdbeat.cli.parser import ParsedArgs
from herdbeat.durations import format_duration, humanize
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.service.queries.explain import (
    Explanation,
    load_future_explanation,
    load_instant_explanation,
    load_next_explanation,
    load_run_explanation,
)
from herdbeat.service.queries.gates import GateStatus
from herdbeat.service.queries.hints import HintView
from herdbeat.service.queries.selectors import find_run
from herdbeat.service.queries.upcoming import RunPreview
from herdbeat.service.serialize import JsonObject, serialize_explanation
from herdbeat.timestamps import parse_stored_timestamp

if TYPE_CHECKING:
    from herdbeat.domain.rule_state import RuleStep

_TIME_CHANGING_STEPS = frozenset({"clamp", "jitter", "hours", "bound", "pause"})
_NOTE_STEP = "note"
_SHADOWED_STEP = "shadowed"
_MAX_ERROR_CHARS = 300
"""Characters of an error that are shown; `herdbeat runs` and the log have the rest."""

_MIN_REASON_COLUMNS = 24
"""Columns that a reason keeps on the narrowest screen; its time then ends beyond the right edge."""


def run_explain(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    explanation = _find_explanation(args, context, handle)
    return Output(
        json=lambda: serialize_explanation(explanation), lines=explanation_lines(context.terminal, handle, explanation)
    )


def _find_explanation(args: ParsedArgs, context: Context, handle: FleetHandle) -> Explanation:
    """A schedule's name comes first: a target may well be called `beef`, which is also the id of a run."""
    reader, selector = handle.require_reader(), args.positionals[0]
    try:
        record = choose_schedule(args, context, reader, selector)
    except NotFound:
        run = find_run(reader, selector)
        if run is None and (not_applied := handle.build_not_applied_error(selector)):
            raise not_applied from None
        if run is None:
            raise
        return load_run_explanation(reader, run, handle.now, handle.zone)
    at = args.value(flags.AT)
    if at is None:
        return load_next_explanation(reader, record, handle.now, has_live_node=handle.holder_pid is not None)
    from herdbeat.time_phrases import parse_moment  # noqa: PLC0415 -- only for this

    moment = parse_moment(at, handle.now, handle.zone)
    if moment > handle.now:
        has_live_node = handle.holder_pid is not None
        return load_future_explanation(reader, record, moment, handle.now, handle.zone, has_live_node=has_live_node)
    return load_instant_explanation(reader, record, moment, handle.now, handle.zone)


def explanation_lines(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> Iterator[str]:
    """Yield the answer first, then what it rests on. Long lines fold; nothing is cut off."""
    if not explanation.has_live_node and (notice := not_running_notice(handle)) is not None:
        yield from (terminal.style(line, "yellow") for line in terminal.wrap(notice, ""))
    yield from _headline(terminal, handle, explanation)
    yield from _field_lines(terminal, explanation)
    if explanation.gates or any(step["kind"] != _NOTE_STEP for step in explanation.steps):
        yield ""
    yield from _reason_lines(terminal, handle, explanation)
    for index, hint in enumerate(explanation.untraced_hints):
        yield from _labelled_words(terminal, "" if index else "HINTS", _format_hint(handle, hint))
    if explanation.last:
        yield from _labelled_words(
            terminal, "LAST", truncate_for_message(printable(explanation.last), _MAX_ERROR_CHARS)
        )
    if explanation.gates:
        yield from _labelled_parts(terminal, "GATES", [_format_gate(terminal, gate) for gate in explanation.gates])
    if explanation.rules:
        yield from _labelled_parts(terminal, "RULES", [_format_rule(terminal, step) for step in explanation.rules])
    if explanation.preview.instants:
        yield from _labelled_words(terminal, "THEN", _format_following_runs(handle, explanation.preview))


def _headline(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> list[str]:
    if explanation.facts:
        return terminal.wrap(printable(explanation.text), "")
    at = explanation.next_run_at
    parts = [terminal.style(printable(explanation.schedule), "bold"), str(explanation.state)]
    if at is not None:
        source = explanation.source and format_cause(explanation.source, explanation.origin)
        parts += [format_full_time(at, handle.now, handle.zone), f"source {source}"]
    return [*fold_parts(terminal, parts, indent="  "), *terminal.wrap(printable(explanation.text), "  ")]


def _field_lines(terminal: Terminal, explanation: Explanation) -> Iterator[str]:
    facts = [*explanation.facts, *([("fix", explanation.fix)] if explanation.fix else [])]
    label_width = max((len(label) for label, _ in facts), default=0) + 2
    for label, text in facts:
        first, *others = terminal.wrap(printable(text), " " * (label_width + 2))
        yield f"  {label:{label_width}}{first.lstrip()}"
        yield from others


def _reason_lines(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> Iterator[str]:
    """Yield the times that took part, and the notes. Notes alone only repeat the headline and are left out."""
    times = [step for step in explanation.steps if step["kind"] != _NOTE_STEP]
    if not times:
        return
    # While an interval runs there is no next time yet: the stored decision is the one that caused the run.
    is_running = explanation.next_run_at is None and not explanation.facts
    yield terminal.style("WHY IT WAS DUE" if is_running else "WHY", "bold")
    yield from _step_lines(terminal, handle, times)
    for step in explanation.steps:
        if step["kind"] == _NOTE_STEP:
            yield from _labelled_words(terminal, "NOTE", printable(str(step["text"])))


def _step_lines(terminal: Terminal, handle: FleetHandle, steps: list[JsonObject]) -> Iterator[str]:
    """Yield reasons on the left, their times in one column beside them."""
    time_texts = [_format_step_time(handle, step) for step in steps]
    reasons = [_format_step(step) for step in steps]
    reason_width = max(map(display_width, reasons))
    if terminal.columns is not None:
        available_width = terminal.columns - 4 - max(map(len, time_texts)) - 2
        reason_width = min(reason_width, max(_MIN_REASON_COLUMNS, available_width))
    for step, reason, time_text in zip(steps, reasons, time_texts, strict=True):
        first, *others = _wrap_words(reason, reason_width)
        unchosen_glyph = "→" if step["kind"] in _TIME_CHANGING_STEPS else "·"
        glyph = terminal.style("✓", "green") if step.get("won") else unchosen_glyph
        yield f"  {glyph} {first}{' ' * (reason_width - display_width(first))}  {time_text}".rstrip()
        yield from (f"    {line}" for line in others)


def _format_step(step: JsonObject) -> str:
    suffix = " (overridden by another hint)" if step["kind"] == _SHADOWED_STEP else ""
    return printable(str(step["text"])) + suffix


def _wrap_words(text: str, available_width: int) -> list[str]:
    """Return the text in lines of so many columns; a single word may be longer. `terminal.wrap` has a minimum width."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and display_width(longer) > available_width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _format_step_time(handle: FleetHandle, step: JsonObject) -> str:
    at = step.get("at")
    return format_time(parse_stored_timestamp(str(at)), handle.now, handle.zone) if at else ""


def _labelled_words(terminal: Terminal, label: str, text: str) -> list[str]:
    return _labelled_parts(terminal, label, text.split(" "), separator=" ")


def _labelled_parts(terminal: Terminal, label: str, parts: list[str], separator: str = "   ") -> list[str]:
    """Return a label in capitals and its parts; those that do not fit continue below, in their column."""
    indent = " " * (max(len(label), 5) + 2)
    first, *others = fold_parts(terminal, [indent + parts[0], *parts[1:]], indent=indent, separator=separator)
    return [terminal.style(label, "bold") + first[len(label) :], *others]


def _format_rule(terminal: Terminal, step: "RuleStep") -> str:
    """Return for example `surge ✓ response.queue_depth = 150`: the rule, its outcome, and what it read."""
    reads = ", ".join(f"{path} = {value}" for path, value in step.reads.items())
    from herdbeat.domain.rule_state import RuleOutcome  # noqa: PLC0415 -- few schedules have rules

    has_acted = step.outcome in (RuleOutcome.FIRED, RuleOutcome.RENEWED)
    progress = f" {step.matches}/{step.for_runs}" if step.outcome is RuleOutcome.WAITING else ""
    glyph = terminal.style("✓", "green") if has_acted else f"– {step.outcome}{progress}"
    return printable(" ".join(part for part in (step.rule, glyph, step.error or reads) if part))


def _format_hint(handle: FleetHandle, hint: HintView) -> str:
    record = hint.record
    every = "" if record.every is None else f"every {format_duration(record.every)}"
    hint_text = f"at {format_clock(record.at, handle.zone, seconds=True)}" if record.at is not None else every
    reason = f' "{record.reason}"' if record.reason else ""
    lasts = humanize(record.expires_at - handle.now)
    return printable(f"{hint_text} by {record.origin}, {lasts} left{reason} ({hint.state})")


def _format_gate(terminal: Terminal, gate: GateStatus) -> str:
    count = f" {gate.used:g}/{gate.most:g}" if gate.most is not None and gate.used is not None else ""
    count = f" {printable(gate.text)}" if gate.text else count
    mark = terminal.style("✓", "green") if gate.ok else terminal.style("✗", "red")
    return f"{gate.gate.replace('_', ' ')}{count} {mark}"


def _format_following_runs(handle: FleetHandle, coming: RunPreview) -> str:
    """03:00:30, 03:01:00, … until the hint ends 03:11:00; after that every 5m"""
    shown = coming.instants if coming.is_complete else coming.instants[:2]
    times = ", ".join(_format_time(handle, each) for each in shown)
    if coming.is_complete:
        return f"{times}; no more after that"
    if coming.until is None:
        return f"{times}, … {coming.pace}{' if it succeeds' if coming.is_conditional else ''}"
    return f"{times}, … until the hint ends {_format_time(handle, coming.until)}; after that {coming.after}"


def _format_time(handle: FleetHandle, moment: datetime) -> str:
    return format_time(moment, handle.now, handle.zone)
