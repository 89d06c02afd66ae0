"""`herdbeat validate`: every problem of every file, each with its place and its mend."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from herdbeat.bootstrap.config import load_config
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.errors import problem_object, show_problem
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem, Severity, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What was read and what is wrong with it. Without any file there is no fleet, and still an answer."""

    fleet: Fleet | None
    sources: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        return sum(problem.severity is Severity.ERROR for problem in self.problems)


def run_validate(args: ParsedArgs, context: Context) -> int:
    report = _apply_strict(_load_report(_parse_path(args), context), is_strict=args.has(flags.STRICT))
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(_report_object(report), indent=2, ensure_ascii=False))
    elif args.has(flags.PLAIN):
        _show_plain(context.terminal, report.problems)
    else:
        _show_report(context.terminal, report)
    return ConfigError.exit_status if report.errors else 0


def _load_report(path: str | None, context: Context) -> ValidationReport:
    try:
        reading = load_config(path, context.environ, context.folder)
    except ConfigError as error:
        return ValidationReport(fleet=None, sources={}, problems=error.problems)
    return ValidationReport(fleet=reading.fleet, sources=reading.sources, problems=reading.problems)


def _parse_path(args: ParsedArgs) -> str | None:
    word, option = args.positional(0), args.value(flags.CONFIG)
    if word is not None and option is not None:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    return word if word is not None else option


def _apply_strict(report: ValidationReport, *, is_strict: bool) -> ValidationReport:
    """With --strict a warning is an error, in the words of the output too."""
    if not is_strict:
        return report
    return replace(report, problems=tuple(replace(each, severity=Severity.ERROR) for each in report.problems))


def _show_report(terminal: Terminal, report: ValidationReport) -> None:
    for problem in report.problems:
        show_problem(terminal, problem, report.sources)
        terminal.print()
    counts_text = _format_problem_counts(report)
    if report.errors or report.fleet is None:
        terminal.print(f"{terminal.style('✗', 'red')} {counts_text}. Nothing was changed.")
    else:
        summary = f"{terminal.style('✓', 'green')} {_format_summary(report.fleet)}"
        terminal.print(f"{summary}   {counts_text}" if counts_text else summary)


def _format_problem_counts(report: ValidationReport) -> str:
    """2 errors and 1 warning in 1 file"""
    warnings = len(report.problems) - report.errors
    files = len({problem.where.file for problem in report.problems if problem.where})
    counts = [_format_count(report.errors, "error")] if report.errors else []
    counts += [_format_count(warnings, "warning")] if warnings else []
    return " and ".join(counts) + (f" in {_format_count(files, 'file')}" if files and report.errors else "")


def _format_summary(fleet: Fleet) -> str:
    """herdbeat.yaml  5 targets, 12 schedules"""
    first, *more = fleet.files or ("",)
    files = f"{first} (and {_format_count(len(more), 'more file')})" if more else first
    counts = f"{_format_count(len(fleet.targets), 'target')}, {_format_count(len(fleet.schedules), 'schedule')}"
    return f"{printable(files)}  {counts}"


def _show_plain(terminal: Terminal, problems: Sequence[Problem]) -> None:
    """One line each, in the form that editors know: file, line, column, severity, code, message."""
    for problem in problems:
        where = problem.where
        place = [where.file, str(where.line), str(where.column)] if where else ["-", "-", "-"]
        fields = [*place, problem.severity.value, problem.code.value, problem.message, problem.hint]
        terminal.print("\t".join(" ".join(printable(field).split()) for field in fields))


def _report_object(report: ValidationReport) -> dict[str, object]:
    fleet = report.fleet
    return {
        "valid": not report.errors,
        "files": list(report.sources),
        "targets": len(fleet.targets) if fleet else 0,
        "schedules": len(fleet.schedules) if fleet else 0,
        "problems": [problem_object(each) for each in report.problems],
    }


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
