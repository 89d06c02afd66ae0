"""`herdbeat doctor`: the checks of the installation, and how to fix what fails."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from herdbeat.bootstrap.doctor import inspect_installation
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.up import describe_unapplied
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.service.maintenance.doctor import DoctorFinding, FindingLevel

EXIT_UNHEALTHY = 6
_SYMBOLS = {FindingLevel.OK: ("✓", "green"), FindingLevel.WARNING: ("!", "yellow"), FindingLevel.PROBLEM: ("✗", "red")}


def run_doctor(args: ParsedArgs, context: Context) -> Output:
    here = f"{context.folder}/"  # paths below the current folder are shown as the user would write them
    found = inspect_installation(
        args.value(flags.CONFIG), context.environ, context.folder, context.clock, partial(describe_unapplied, context)
    )
    findings = [replace(finding, text=finding.text.replace(here, "")) for finding in found]
    is_unhealthy = any(finding.level is FindingLevel.PROBLEM for finding in findings)
    return Output(
        json=lambda: {"well": not is_unhealthy, "items": [_finding_object(finding) for finding in findings]},
        lines=_finding_lines(context.terminal, findings),
        exit_status=EXIT_UNHEALTHY if is_unhealthy else 0,
    )


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
