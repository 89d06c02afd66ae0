"""`herdbeat doctor`: what is well here, what is not, and what to do about it."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from herdbeat.bootstrap.config import load_config
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.up import describe_unapplied
from herdbeat.cli.context import Context
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, HerdbeatError, Problem, Severity
from herdbeat.service.maintenance.doctor import DoctorFinding, FindingLevel, report_ok, report_problem, report_warning
from herdbeat.service.maintenance.doctor.ledger import check_ledger, check_node, check_state_dir
from herdbeat.service.maintenance.doctor.machine import check_clock, check_other_schedulers
from herdbeat.service.maintenance.doctor.programs import check_environment, check_modules, check_programs
from herdbeat.store.location import PostgresLocation, resolve_state_dir, store_location
from herdbeat.store.state_lock import find_lock_holder

EXIT_UNHEALTHY = 6
_LEVEL_SYMBOLS = {
    FindingLevel.OK: ("✓", "green"),
    FindingLevel.WARNING: ("!", "yellow"),
    FindingLevel.PROBLEM: ("✗", "red"),
}


def run_doctor(args: ParsedArgs, context: Context) -> int:
    here = f"{context.folder}/"  # what lies here is named as who stands here would
    found = [
        replace(each, text=each.text.replace(here, ""))
        for each in inspect_installation(args.value(flags.CONFIG), context)
    ]
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(_findings_object(found), indent=2, ensure_ascii=False))
    else:
        for line in _finding_lines(context.terminal, found):
            context.terminal.print(line)
        context.terminal.info(_summarize_findings(found))
    return EXIT_UNHEALTHY if any(each.level is FindingLevel.PROBLEM for each in found) else 0


def inspect_installation(config: str | None, context: Context) -> Iterator[DoctorFinding]:
    """Everything that can be said. Without a fleet, what can be said of the machine."""
    try:
        reading = load_config(config, context.environ, context.folder)
    except ConfigError as error:
        yield report_problem("config", error.message, "herdbeat init")
        yield check_clock()
        return
    yield from _check_config(reading.problems, list(reading.sources))
    if reading.fleet is not None:
        yield from _check_fleet(reading.fleet, context)
    yield check_clock()


def _check_fleet(fleet: Fleet, context: Context) -> Iterator[DoctorFinding]:
    counts = f"{format_count(len(fleet.targets), 'target')}, {format_count(len(fleet.schedules), 'schedule')}"
    yield report_ok("fleet", f"{fleet.name}, {counts}, {fleet.zone.key}")
    path = store_location(fleet)
    state_findings = list(check_state_dir(path))
    yield from state_findings
    if not state_findings or isinstance(path, PostgresLocation):
        yield from check_ledger(path, context.clock)
        yield from _check_applied(fleet, context)
    if not state_findings:
        yield from check_node(path)
    yield from check_programs(fleet, context.environ)
    yield from check_modules(fleet, sys.path)
    yield from check_environment(fleet, context.environ)
    yield from check_other_schedulers(
        Path(fleet.home), None if state_findings else find_lock_holder(resolve_state_dir(path))
    )


def _check_applied(fleet: Fleet, context: Context) -> Iterator[DoctorFinding]:
    """Whether nodes that share a ledger run what these files say."""
    try:
        differs = describe_unapplied(fleet, context)
    except HerdbeatError:
        return  # the ledger cannot be asked, as was said above
    if differs:
        yield report_warning("files", differs.partition("\n")[0], "herdbeat apply --dry-run, then herdbeat apply")


def _check_config(problems: tuple[Problem, ...], sources: list[str]) -> Iterator[DoctorFinding]:
    errors = [each for each in problems if each.severity is Severity.ERROR]
    first = sources[0] if sources else "the configuration"
    if errors:
        where = f"{errors[0].where}  " if errors[0].where else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield report_problem("config", f"{where}{errors[0].message}{more}", "herdbeat validate")
    elif problems:
        yield report_warning("config", f"{first}  {format_count(len(problems), 'warning')}", "herdbeat validate")
    else:
        yield report_ok("config", f"{first}{f' (and {len(sources) - 1} more)' if len(sources) > 1 else ''}")


def _finding_lines(terminal: Terminal, found: list[DoctorFinding]) -> Iterator[str]:
    label_width = max(len(each.subject) for each in found)
    for each in found:
        glyph, colour = _LEVEL_SYMBOLS[each.level]
        head = f"{terminal.style(glyph, colour)} {printable(each.subject):{label_width}}  "
        indent = " " * (label_width + 4)
        first, *rest = terminal.wrap(printable(each.text), indent)
        yield head + first.strip()
        yield from rest
        if each.fix:
            fix, *more = terminal.wrap(f"fix: {printable(each.fix)}", indent)
            yield terminal.style(fix, "dim")
            yield from more


def _summarize_findings(found: list[DoctorFinding]) -> str:
    problems = sum(each.level is FindingLevel.PROBLEM for each in found)
    warnings = sum(each.level is FindingLevel.WARNING for each in found)
    if not problems and not warnings:
        return "All is well."
    parts = [format_count(problems, "problem")] if problems else []
    return ", ".join([*parts, *([format_count(warnings, "warning")] if warnings else [])])


def _findings_object(found: list[DoctorFinding]) -> dict[str, object]:
    items = [{"level": each.level, "about": each.subject, "text": each.text, "hint": each.fix} for each in found]
    return {"well": not any(each.level is FindingLevel.PROBLEM for each in found), "items": items}
