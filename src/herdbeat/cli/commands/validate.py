"""`herdbeat validate`: every problem of every file, each with its place and how to fix it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from herdbeat.bootstrap.config import load_config
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.errors import problem_lines, problem_object
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, HerdbeatError, Problem, Severity, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """What was read, and its problems. There is no fleet if no file was found."""

    fleet: Fleet | None
    sources: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        return sum(problem.severity is Severity.ERROR for problem in self.problems)


def run_validate(args: ParsedArgs, context: Context) -> Output:
    report = _load_report(_parse_path(args), context)
    if args.has(flags.STRICT):  # every warning is an error, in its words too
        problems = tuple(replace(each, severity=Severity.ERROR) for each in report.problems)
        report = replace(report, problems=problems)
    lines, plain = _report_lines(context.terminal, report), _plain_lines(report.problems)
    exit_status = ConfigError.exit_status if report.errors else 0
    return Output(json=lambda: _report_object(report), plain=plain, lines=lines, exit_status=exit_status)


def _load_report(path: str | None, context: Context) -> ValidationReport:
    try:
        reading = load_config(path, context.environ, context.folder)
    except ConfigError as error:
        return ValidationReport(fleet=None, sources={}, problems=error.problems)
    fleet, problems = reading.fleet, reading.problems
    if fleet is not None:
        problems = (*problems, *_find_unknown_fields(fleet, context.clock))
    return ValidationReport(fleet=fleet, sources=reading.sources, problems=problems)


def _find_unknown_fields(fleet: Fleet, clock: Clock) -> tuple[Problem, ...]:
    """Compare the rules with the responses in the ledger. Files are valid without one, or if it cannot be read."""
    schedules = [each for each in fleet.schedules if each.policies.adapt]
    if not schedules:
        return ()
    from herdbeat.bootstrap.handle import build_handle  # noqa: PLC0415 -- few fleets have rules
    from herdbeat.service.queries.rules import find_unknown_fields  # noqa: PLC0415

    try:
        handle = build_handle(fleet, clock).use_ledger_clock()
        if not handle.has_ledger:
            return ()
        with closing(handle.open_reader()) as reader:
            return tuple(find_unknown_fields(reader, schedules))
    except HerdbeatError:
        return ()


def _parse_path(args: ParsedArgs) -> str | None:
    word, option = args.positional(0), args.value(flags.CONFIG)
    if word is not None and option is not None:
        raise UsageError("PATH and --config cannot be combined.", hint="Give the path once.")
    return word if word is not None else option


def _report_lines(terminal: Terminal, report: ValidationReport) -> Iterator[str]:
    for problem in report.problems:
        yield from problem_lines(terminal, problem, report.sources)
        yield ""
    counts_text = _format_problem_counts(report)
    if report.errors or report.fleet is None:
        yield f"{terminal.style('✗', 'red')} {counts_text}."
    else:
        summary = f"{terminal.style('✓', 'green')} {_format_summary(report.fleet)}"
        yield f"{summary}   {counts_text}" if counts_text else summary


def _format_problem_counts(report: ValidationReport) -> str:
    """2 errors and 1 warning in 1 file"""
    warnings = len(report.problems) - report.errors
    files = len({problem.where.file for problem in report.problems if problem.where})
    counts = {"error": report.errors, "warning": warnings}
    counts_text = " and ".join(format_count(count, noun) for noun, count in counts.items() if count)
    return counts_text + (f" in {format_count(files, 'file')}" if files and report.errors else "")


def _format_summary(fleet: Fleet) -> str:
    """herdbeat.yaml  5 targets, 12 schedules"""
    first, *more = fleet.files or (f"{fleet.name} (no files yet)",)  # an empty .agentd/
    files = f"{first} (and {format_count(len(more), 'more file')})" if more else first
    counts = f"{format_count(len(fleet.targets), 'target')}, {format_count(len(fleet.schedules), 'schedule')}"
    return f"{printable(files)}  {counts}"


def _plain_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield one line each in the form that editors know: file, line, column, severity, code, message, hint."""
    for problem in problems:
        where = problem.where
        place = [where.file, str(where.line), str(where.column)] if where else ["-", "-", "-"]
        fields = [*place, problem.severity.value, problem.code.value, problem.message, problem.hint]
        yield "\t".join(" ".join(printable(field).split()) for field in fields)


def _report_object(report: ValidationReport) -> dict[str, object]:
    fleet = report.fleet
    return {
        "valid": not report.errors,
        "files": list(report.sources),
        "targets": len(fleet.targets) if fleet else 0,
        "schedules": len(fleet.schedules) if fleet else 0,
        "problems": [problem_object(each) for each in report.problems],
    }
