"""The problems of all files of one load, each with its location, and the errors of values that do not fit their key."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from herdbeat.config.nodes import ConfigNode
from herdbeat.error_codes import Code
from herdbeat.errors import (
    CronParseError,
    ExpressionError,
    HerdbeatError,
    Problem,
    Severity,
    SourceLocation,
    TemplateError,
)
from herdbeat.redaction import MASK, is_secret_value, redact, redact_source
from herdbeat.triggers.cron.pattern import CRON_FIELDS

_QUOTES = ("'", '"')


class ValidationError(HerdbeatError):
    """A value does not fit its key. One class serves all such errors, so each carries its `problem_code`."""

    def __init__(self, code: Code, message: str, hint: str = "", where: SourceLocation | None = None) -> None:
        super().__init__(message, hint=hint, where=where)
        self.problem_code = code


@dataclass(slots=True)
class Diagnostics:
    """Collects the problems of one load.

    - `sources` has the text of each file; `folders` were listed, so a new file in one changes the configuration.
    - `foreign_files` were written for another tool and are validated less strictly. `lenient` says that the first
      file is one of them: then keys that only herdbeat has are not missed.
    - `key_locations` says where a misplaced key belongs.
    - `error_count` only grows: compare it before and after a part to learn whether that part is valid.
    """

    sources: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    foreign_files: set[str] = field(default_factory=set)
    key_locations: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    error_count: int = 0
    _problems: dict[Problem, None] = field(default_factory=dict)

    def error(self, code: Code, message: str, where: SourceLocation | None, hint: str = "") -> None:
        self._record(code, message, where, hint, Severity.ERROR)

    def warning(self, code: Code, message: str, where: SourceLocation | None, hint: str = "") -> None:
        self._record(code, message, where, hint, Severity.WARNING)

    def add(self, error: HerdbeatError, node: ConfigNode, severity: Severity = Severity.ERROR) -> None:
        """Report an error that was raised while reading the node."""
        code = error.problem_code if isinstance(error, ValidationError) else error.code
        where = error.where or self._locate_error(node, error)
        self._record(code, error.message, where, error.hint, severity)

    def is_foreign(self, location: SourceLocation) -> bool:
        return location.file in self.foreign_files

    def invalid_keys(self, file: str) -> set[str]:
        """Return the keys at the top of a file that have an error in them; "" is the file as a whole."""
        errors = (each for each in self._problems if each.severity is Severity.ERROR)
        places = [each.where for each in errors if each.where is not None and each.where.file == file]
        return {re.split(r"[.\[]", place.path)[0] for place in places}

    def sorted_problems(self) -> tuple[Problem, ...]:
        """Return all problems: files in the order in which they were opened, lines from the top."""
        order = {file: index for index, file in enumerate(self.sources)}
        return tuple(sorted(self._problems, key=lambda problem: _sort_key(problem, order)))

    def _record(self, code: Code, message: str, where: SourceLocation | None, hint: str, severity: Severity) -> None:
        # Each problem is shown once, but counted every time: many agents may inherit one broken default.
        message, hint = redact(message), redact(hint or code.info.fix)
        self._problems[Problem(code=code, message=message, where=where, hint=hint, severity=severity)] = None
        self.error_count += severity is Severity.ERROR

    def _locate_error(self, node: ConfigNode, error: HerdbeatError) -> SourceLocation:
        """Return the location of the part of the value that is wrong, if the error knows it."""
        source = self.sources.get(node.location.file, "")
        if isinstance(error, TemplateError | ExpressionError):
            return locate_in_scalar(node, error.offset, error.width, source)
        if isinstance(error, CronParseError):
            offset = find_cron_token_offset(str(node.value), error.field, error.token)
            return node.location if offset is None else locate_in_scalar(node, offset, len(error.token or ""), source)
        return node.location


def _sort_key(problem: Problem, order: Mapping[str, int]) -> tuple[int, int, int]:
    where = problem.where
    return (-1, 0, 0) if where is None else (order.get(where.file, len(order)), where.line, where.column)


def locate_in_scalar(node: ConfigNode, offset: int, width: int, source: str) -> SourceLocation:
    """Return the location in the file of an offset in a scalar's value.

    Exact for whole files (style "file"), literal blocks, and scalars on one line without escapes, which is how prompts
    are written; other forms fall back to the start of the scalar.
    """
    if not isinstance(node.value, str) or node.variable_names:
        return node.location
    if node.style == "file":
        before = node.value[:offset]
        column = len(before.rpartition("\n")[2]) + 1
        return replace(node.location, line=before.count("\n") + 1, column=column, width=width)
    if node.style == "|":
        return _locate_in_block(node, offset, width, source)
    quote = 1 if node.style in _QUOTES else 0
    if node.location.width != len(node.value) + 2 * quote:
        return node.location  # escapes or several lines: an offset in the value is another one in the text
    column = node.location.column + offset + quote
    return replace(node.location, column=column, width=width)


def find_cron_token_offset(expression: str, field: str | None, token: str | None) -> int | None:
    """Return the offset of a field's token in a cron expression; None if it is not there."""
    fields = list(re.finditer(r"\S+", expression))
    names = [word.name for word in CRON_FIELDS[-len(fields) :]]
    if not token or not fields or field not in names:
        return None
    written = fields[names.index(field)]
    within = written[0].find(token)
    return written.start() + within if within >= 0 else None


def _locate_in_block(node: ConfigNode, offset: int, width: int, source: str) -> SourceLocation:
    before = str(node.value)[:offset]
    lines = source.splitlines()[node.location.line :]
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    line = node.location.line + 1 + before.count("\n")
    return replace(node.location, line=line, column=indent + len(before.rpartition("\n")[2]) + 1, width=width)


# Errors of values that do not fit their key.


def find_closest_match(word: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word, for "did you mean". Case, - and _ do not count."""
    by_normalized = {_normalize(each): each for each in known}
    if _normalize(word) in by_normalized:
        return by_normalized[_normalize(word)]
    near = get_close_matches(_normalize(word)[:60], by_normalized, n=1, cutoff=0.7)
    return by_normalized[near[0]] if near else None


def _normalize(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def require_text(node: ConfigNode, description: str) -> str:
    """Return the text of a node. Raises ValidationError for another type, and for a text that no ledger can hold."""
    require_defined(node)
    if isinstance(node.value, str):
        if "\0" in node.value:
            # No path, argument, variable or PostgreSQL text can hold one, so the first run would fail.
            message = f"{key_name(node)} contains a NUL character."
            raise ValidationError(Code.INVALID_VALUE, message, "Remove the \\0.")
        return node.value
    raise wrong_type_error(node, description)


def require_defined(node: ConfigNode) -> None:
    if node.undefined_variable:
        raise undefined_variable_error(node.undefined_variable)


def undefined_variable_error(name: str) -> ValidationError:
    if name.startswith("${"):
        return ValidationError(Code.INVALID_VALUE, f'"{name}" is not closed.', f"Write {name}}}.")
    message = f"The environment variable {name} is not set."
    hint = f"Set it in the environment or in .env, or give a default: ${{{name}:-default}}."
    return ValidationError(Code.UNDEFINED_VARIABLE, message, hint)


def wrong_type_error(node: ConfigNode, description: str, wanted: str = "") -> ValidationError:
    """Return the error for a value of another type; that of an undefined variable, if one is the reason.

    `wanted` is what the hint says to write, if that is more than the description.
    """
    if node.undefined_variable:
        return undefined_variable_error(node.undefined_variable)
    wanted = wanted or description
    if node.value is None:
        hint = f"Write {wanted}, or remove the key."
        return ValidationError(Code.WRONG_TYPE, f"{key_name(node)} has no value.", hint)
    quotes = description == "a string" and not isinstance(node.value, list | dict)
    hint = f"Put it in quotes: {_quote_value(node)}." if quotes else f"Write {wanted}."
    message = f"{key_name(node)} must be {description}, not {describe_value(node)}."
    return ValidationError(Code.WRONG_TYPE, message, hint)


def _quote_value(node: ConfigNode) -> str:
    return MASK if is_secret_value(key_name(node), node.raw) else f'"{node.raw}"'


def redact_value(error: HerdbeatError, node: ConfigNode, description: str) -> HerdbeatError:
    """Return the error without the value if a variable put it in: that may be a secret, and many people read logs."""
    if not node.variable_names:
        return error
    code = error.problem_code if isinstance(error, ValidationError) else error.code
    message = f'{key_name(node)}: "{node.raw}" is not {description}.'
    hint = f"Set {node.variable_names.split()[0]} to {description}."
    return ValidationError(code, message, hint)


def out_of_range_error(node: ConfigNode, bounds: str) -> ValidationError:
    message = f"{key_name(node)} cannot be {describe_value(node)}."
    return ValidationError(Code.INVALID_VALUE, message, f"Write {bounds}.")


def describe_range(at_least: int, at_most: int) -> str:
    return f"{at_least}" if at_least == at_most else f"a number from {at_least} to {at_most}"


def describe_value(node: ConfigNode) -> str:
    """Return a value for a message: short, on one line, and never what a variable put in."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    if is_secret_value(key_name(node), node.raw or str(node.value)):
        return MASK
    text = redact_source(redact(" ".join((node.raw or str(node.value)).split())))
    short = text if len(text) <= 40 else text[:37] + "…"
    return f'"{short}"' if isinstance(node.value, str) else short


def key_name(node: ConfigNode) -> str:
    """Return the key as it was written, perhaps an alias; "The file" for a whole document."""
    return node.report_location.path.rpartition(".")[2] or "The file"
