"""`herdbeat rules test`: what the rules of a schedule would have done with the runs that it had."""

from collections.abc import Iterator
from datetime import timedelta

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, choose_schedule, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.rule_state import RuleOutcome
from herdbeat.durations import humanize
from herdbeat.service.queries.rules import RuleTest, replay_rules
from herdbeat.service.serialize import serialize_rule_test
from herdbeat.time_phrases import parse_past_time

DEFAULT_TEST_PERIOD = timedelta(days=7)
_SHOWN_OUTCOMES = (
    RuleOutcome.FIRED,
    RuleOutcome.RENEWED,
    RuleOutcome.ENDED,
    RuleOutcome.SHADOWED,
    RuleOutcome.NO_MATCH,
    RuleOutcome.UNDECIDABLE,
)


def run_test(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    reader = handle.require_reader()
    record = choose_schedule(args, context, reader, args.positionals[0])
    since_text = args.value(flags.SINCE)
    since = parse_past_time(since_text, handle.now, handle.zone) if since_text else handle.now - DEFAULT_TEST_PERIOD
    test = replay_rules(reader, record, since)
    return Output(json=lambda: serialize_rule_test(test), lines=_lines(context.terminal, handle, test))


def _lines(terminal: Terminal, handle: FleetHandle, test: RuleTest) -> Iterator[str]:
    result = test.backtest
    if result.start is None or result.end is None:
        yield Notice(f"{printable(test.schedule)} has no ended runs in this time.")
        return
    start, end = (format_time(at, handle.now, handle.zone) for at in (result.start, result.end))
    yield f"{terminal.style(printable(test.schedule), 'bold')}   {format_count(result.runs, 'run')}, {start} to {end}"
    yield ""
    headings = ["RULE", *(str(outcome).upper() for outcome in _SHOWN_OUTCOMES)]
    rows = [
        [printable(each.rule), *(str(each.outcomes.get(key, 0)) for key in _SHOWN_OUTCOMES)] for each in result.rules
    ]
    yield from terminal.format_table([headings, *rows], shrink=(0,))
    yield ""
    yield from _summary_lines(handle, test)


def _summary_lines(handle: FleetHandle, test: RuleTest) -> Iterator[str]:
    result = test.backtest
    before, after = result.calls_per_day_before, result.calls_per_day_after
    if before is not None and after is not None:
        yield f"runs per day   {before:,.0f} without rules, {after:,.0f} with them"
    flapping = f", {result.flapping} within 10 minutes" if result.flapping else ""
    yield f"pace changes   {result.pace_changes}{flapping}"
    if result.paused:
        yield f"paused         {humanize(result.paused)}"
    for schedule, count in result.triggered.items():
        yield f"triggered      {printable(schedule)}, {format_count(count, 'time')}"
    for firing in result.firings[-5:]:
        reads = ", ".join(f"{path} = {value}" for path, value in firing.reads.items())
        at = format_time(firing.at, handle.now, handle.zone)
        yield f"fired          {at}  {printable(firing.rule)}  {printable(reads)}"
    for tally in result.rules:
        for error, count in tally.errors.items():
            yield Notice(f"{printable(tally.rule)}: {printable(error)} ({format_count(count, 'run')})")
    for warning in test.warnings:
        yield Notice(printable(warning))
    if result.flapping:
        yield Notice("The pace changes back and forth. Add until: with some distance to when:, or a longer for:.")
