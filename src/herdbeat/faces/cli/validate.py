"""`herdbeat validate`: every problem of every file, each with its place and its mend."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from herdbeat.app import read_configuration
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem, Severity, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.problems import problem_object, show_problem
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was read and what is wrong with it. Without any file there is no fleet, and still an answer."""

    fleet: Fleet | None
    sources: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        return sum(problem.severity is Severity.ERROR for problem in self.problems)


def run(given: Given, world: World) -> int:
    found = _judged(_find(_path(given), world), is_strict=given.has(flags.STRICT))
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(_json(found), indent=2, ensure_ascii=False))
    elif given.has(flags.PLAIN):
        _show_plain(world.terminal, found.problems)
    else:
        _show(world.terminal, found)
    return ConfigError.exit_status if found.errors else 0


def _find(path: str | None, world: World) -> Findings:
    try:
        reading = read_configuration(path, world.environ, world.folder)
    except ConfigError as error:
        return Findings(fleet=None, sources={}, problems=error.problems)
    return Findings(fleet=reading.fleet, sources=reading.sources, problems=reading.problems)


def _path(given: Given) -> str | None:
    word, option = given.word(0), given.value(flags.CONFIG)
    if word is not None and option is not None:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    return word if word is not None else option


def _judged(found: Findings, *, is_strict: bool) -> Findings:
    """With --strict a warning is an error, in the words of the output too."""
    if not is_strict:
        return found
    return replace(found, problems=tuple(replace(each, severity=Severity.ERROR) for each in found.problems))


def _show(terminal: Terminal, found: Findings) -> None:
    for problem in found.problems:
        show_problem(terminal, problem, found.sources)
        terminal.say()
    counted = _counted(found)
    if found.errors or found.fleet is None:
        terminal.say(f"{terminal.style('✗', 'red')} {counted}. Nothing was changed.")
    else:
        summary = f"{terminal.style('✓', 'green')} {_summary(found.fleet)}"
        terminal.say(f"{summary}   {counted}" if counted else summary)


def _counted(found: Findings) -> str:
    """2 errors and 1 warning in 1 file"""
    warnings = len(found.problems) - found.errors
    files = len({problem.where.file for problem in found.problems if problem.where})
    counts = [_count(found.errors, "error")] if found.errors else []
    counts += [_count(warnings, "warning")] if warnings else []
    return " and ".join(counts) + (f" in {_count(files, 'file')}" if files and found.errors else "")


def _summary(fleet: Fleet) -> str:
    """herdbeat.yaml  5 targets, 12 schedules"""
    first, *more = fleet.files or ("",)
    files = f"{first} (and {_count(len(more), 'more file')})" if more else first
    counts = f"{_count(len(fleet.targets), 'target')}, {_count(len(fleet.schedules), 'schedule')}"
    return f"{printable(files)}  {counts}"


def _show_plain(terminal: Terminal, problems: Sequence[Problem]) -> None:
    """One line each, in the form that editors know: file, line, column, severity, code, message."""
    for problem in problems:
        where = problem.where
        place = [where.file, str(where.line), str(where.column)] if where else ["-", "-", "-"]
        fields = [*place, problem.severity.value, problem.code.value, problem.message, problem.hint]
        terminal.say("\t".join(" ".join(printable(field).split()) for field in fields))


def _json(found: Findings) -> dict[str, object]:
    fleet = found.fleet
    return {
        "valid": not found.errors,
        "files": list(found.sources),
        "targets": len(fleet.targets) if fleet else 0,
        "schedules": len(fleet.schedules) if fleet else 0,
        "problems": [problem_object(each) for each in found.problems],
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
