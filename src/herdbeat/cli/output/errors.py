"""Errors for people, in one shape: where, what happened, the source line with a caret, what to do."""

import json
from collections.abc import Iterator, Mapping

from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.errors import ConfigError, CronParseError, HerdbeatError, Problem, Severity, SourceLocation
from herdbeat.redaction import MASK, find_source_secrets, redact_source

_DEFAULT_FRAME_COLUMNS = 200
"""The width of a code frame if stdout is not a terminal."""

_MIN_FRAME_COLUMNS = 24

_SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def problem_lines(terminal: Terminal, problem: Problem, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield one problem of a configuration: its place, the message, the source line with a caret, the hint."""
    colour = _SEVERITY_COLOURS[problem.severity]
    where = problem.where
    if where is not None:
        path = f"  {terminal.style(printable(where.path), 'dim')}" if where.path else ""
        yield f"{terminal.style(printable(str(where)), 'bold')}{path}"
    for line in terminal.wrap(f"{problem.severity}: {printable(problem.message)}", "  "):
        yield line.replace(f"  {problem.severity}:", f"  {terminal.style(problem.severity, colour)}:", 1)
    if where is not None:
        for line in code_frame(where, sources.get(where.file, ""), terminal.columns or _DEFAULT_FRAME_COLUMNS):
            yield _colour_frame(terminal, line, colour)
    if problem.hint:
        yield from terminal.wrap(printable(problem.hint), "  ")


def show_error(terminal: Terminal, error: HerdbeatError, *, as_json: bool = False) -> None:
    """Print the error that stopped a command, on stderr."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    if as_json:
        listed = problems or (Problem(code=error.code, message=error.message, where=error.where, hint=error.hint),)
        terminal.error(json.dumps({"problems": [problem_object(each) for each in listed]}, ensure_ascii=False))
        return
    for each in problems or (error,):
        where = f"{printable(str(each.where))}  " if each.where else ""
        terminal.error(f"{where}{terminal.style_error('error', 'red', 'bold')}: {printable(each.message)}")
        for line in _cron_frame(error) if isinstance(error, CronParseError) else []:
            terminal.error(f"    {line}")
        for line in terminal.wrap(printable(each.hint), "  ") if each.hint else []:
            terminal.error(line)


def problem_object(problem: Problem) -> dict[str, object]:
    """Return a problem as `--json` prints it."""
    place = {name: getattr(problem.where, name, None) for name in ("file", "line", "column", "path", "pointer")}
    severity, code = problem.severity.value, problem.code.value
    return {"severity": severity, "code": code, "detail": problem.message, "hint": problem.hint, **place}


def code_frame(where: SourceLocation, source: str, columns: int = _DEFAULT_FRAME_COLUMNS) -> list[str]:
    """Return the line in question and the one above it, with a caret below the value.

    Of a line that is too long the part around the value is shown: the caret of a prompt with two thousand letters
    would otherwise be far off the screen.
    """
    lines = source.splitlines()
    if not 0 < where.line <= len(lines):
        return []
    gutter = len(str(where.line)) + 2
    first = where.line - 1 if where.line > 1 and lines[where.line - 2].strip() else where.line
    available_width = max(_MIN_FRAME_COLUMNS, columns - gutter - 3)
    hidden = [redact_source(line) for line in lines[first - 1 : where.line]]
    at, width = _shift_span(lines[where.line - 1], where.column - 1, where.width)
    start = 0 if at + min(width, available_width // 2) <= available_width else at - available_width // 4
    shown = [_clip_line(line, start, available_width) for line in hidden]
    frame = [f"{first + index:>{gutter}} | {line}".rstrip() for index, line in enumerate(shown)]
    before, value = shown[-1][: at - start], shown[-1][at - start : at - start + width]
    indent = display_width(before) + (at - start - len(before))  # a location may lie behind the end of its line
    return [*frame, f"{'':>{gutter}} | {' ' * indent}{'^' * max(1, display_width(value))}"]


def _shift_span(line: str, at: int, width: int) -> tuple[int, int]:
    """Return where a part of a line begins, and how wide it is, once the secrets of the line are hidden."""
    begin, until = at, at + width
    for start, end in reversed(find_source_secrets(line)):
        saved = end - start - len(MASK)
        begin -= saved if end <= begin else max(0, begin - start) if start < begin else 0
        until -= saved if end <= until else max(0, until - start - len(MASK)) if start < until else 0
    return begin, max(1, until - begin)


def _clip_line(line: str, start: int, available_width: int) -> str:
    """Return the part of a line that fits, with … where something was cut off."""
    # One blank for each tab, so that the caret is right below its value.
    part = printable(line[start : start + available_width].replace("\t", " "))
    if start and part:
        part = "…" + part[1:]
    return part[:-1] + "…" if len(line) > start + available_width else part


def _colour_frame(terminal: Terminal, line: str, colour: str) -> str:
    gutter, bar, code = line.partition(" | ")
    is_caret = not gutter.strip()
    return terminal.style(gutter + bar, "dim") + (terminal.style(code, colour) if is_caret else code)


def _cron_frame(error: CronParseError) -> list[str]:
    """Return the expression with a caret below the wrong token."""
    expression = " ".join(printable(error.expression).split())
    at = _find_token(expression, error.token) if error.token else -1
    if at < 0 or len(expression) > 100 or not error.token:
        return []
    return [expression, " " * at + "^" * len(error.token)]


def _find_token(expression: str, token: str) -> int:
    """Return the index of the token as a whole item; blanks and commas separate items."""
    padded = f" {expression.upper()} ".replace(",", " ")
    return padded.find(f" {token.upper()} ")
