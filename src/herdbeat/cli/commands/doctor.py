"""`herdbeat doctor`: the checks of the installation, and how to fix what fails."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from herdbeat.bootstrap.config import load_config
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.up import describe_unapplied
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, Problem, Severity
from herdbeat.service.maintenance.doctor import DoctorFinding, FindingLevel, report_ok, report_problem, report_warning
from herdbeat.service.maintenance.doctor.fleet import check_fleet
from herdbeat.service.maintenance.doctor.machine import check_clock

EXIT_UNHEALTHY = 6
_INEFFECTIVE_CODES = {Code.NOT_YET: "not yet", Code.BLOCKED_ADDRESS: "egress"}
"""Warnings of the files about something that does not happen, with the word for it."""

_SYMBOLS = {FindingLevel.OK: ("✓", "green"), FindingLevel.WARNING: ("!", "yellow"), FindingLevel.PROBLEM: ("✗", "red")}


def run_doctor(args: ParsedArgs, context: Context) -> Output:
    here = f"{context.folder}/"  # paths below the current folder are shown as the user would write them
    found = inspect_installation(args.value(flags.CONFIG), context)
    findings = [replace(finding, text=finding.text.replace(here, "")) for finding in found]
    is_unhealthy = any(finding.level is FindingLevel.PROBLEM for finding in findings)
    return Output(
        json=lambda: {"well": not is_unhealthy, "items": [_finding_object(finding) for finding in findings]},
        lines=_finding_lines(context.terminal, findings),
        exit_status=EXIT_UNHEALTHY if is_unhealthy else 0,
    )


def inspect_installation(config: str | None, context: Context) -> Iterator[DoctorFinding]:
    """Yield all findings; without a fleet, those about the machine."""
    try:
        reading = load_config(config, context.environ, context.folder)
    except ConfigError as error:
        yield report_problem("config", error.message, "herdbeat init")
        yield check_clock()
        return
    yield from _check_config(reading.problems, list(reading.sources))
    if (fleet := reading.fleet) is not None:
        counts = f"{format_count(len(fleet.targets), 'target')}, {format_count(len(fleet.schedules), 'schedule')}"
        yield report_ok("fleet", f"{fleet.name}, {counts}, {fleet.zone.key}")
        unapplied = partial(describe_unapplied, fleet, context)
        yield from check_fleet(fleet, context.clock, context.environ, sys.path, unapplied)
    yield check_clock()


def _check_config(problems: tuple[Problem, ...], sources: list[str]) -> Iterator[DoctorFinding]:
    errors = [each for each in problems if each.severity is Severity.ERROR]
    first = sources[0] if sources else "the configuration"
    if errors:
        where = f"{errors[0].where}  " if errors[0].where else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield report_problem("config", f"{where}{errors[0].message}{more}", "herdbeat validate")
    elif problems:
        yield report_warning("config", f"{first}  {format_count(len(problems), 'warning')}", "herdbeat validate")
    for each in problems:
        if each.code in _INEFFECTIVE_CODES:
            yield report_problem(_INEFFECTIVE_CODES[each.code], f"{each.where}  {each.message}", each.hint)
    if not problems:
        yield report_ok("config", f"{first}{f' (and {len(sources) - 1} more)' if len(sources) > 1 else ''}")


def _finding_lines(terminal: Terminal, findings: list[DoctorFinding]) -> Iterator[str]:
    label_width = max(len(finding.subject) for finding in findings)
    indent = " " * (label_width + 4)
    for finding in findings:
        glyph, colour = _SYMBOLS[finding.level]
        first, *rest = terminal.wrap(printable(finding.text), indent)
        yield f"{terminal.style(glyph, colour)} {printable(finding.subject):{label_width}}  {first.strip()}"
        yield from rest
        if finding.fix:
            fix, *more = terminal.wrap(f"fix: {printable(finding.fix)}", indent)
            yield terminal.style(fix, "dim")
            yield from more
    yield Notice(_summarize_findings(findings))


def _summarize_findings(findings: list[DoctorFinding]) -> str:
    counts = Counter(finding.level for finding in findings)
    levels = [level for level in (FindingLevel.PROBLEM, FindingLevel.WARNING) if counts[level]]
    return ", ".join(format_count(counts[level], level) for level in levels) or "No problems found."


def _finding_object(finding: DoctorFinding) -> dict[str, object]:
    return {"level": finding.level, "about": finding.subject, "text": finding.text, "hint": finding.fix}
