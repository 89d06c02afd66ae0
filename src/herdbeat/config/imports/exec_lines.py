"""ExecStart= and its neighbours, as the argument list of one command."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from herdbeat.config.imports.calendar import CannotCarry
from herdbeat.domain.references import escape_references

_PREFIXES = re.compile(r"^[@:+!|-]*")
_VARIABLE = re.compile(r"\$\$|\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*")
_SPECIFIER = re.compile(r"%(.)")
_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """What a service runs, and what changes: each note is a message with a hint."""

    argv: tuple[str, ...]
    precheck: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExecLine:
    """One line: its words, whether its failure counts, and whether it has variables for a shell to fill in."""

    words: tuple[str, ...]
    may_fail: bool
    has_variables: bool
    is_privileged: bool

    def to_shell(self) -> str:
        text = " ".join(_quote(word) if self.has_variables else shlex.quote(word) for word in self.words)
        return f"{{ {text} || true; }}" if self.may_fail else text


def build_command(values: Mapping[str, Sequence[str]], unit: str) -> ExecCommand:
    """Return the command of a service from its Exec lines. Raises CannotCarry."""
    main = [line for text in values.get("ExecStart", ()) for line in _parse_lines(text, unit)]
    if not main:
        raise CannotCarry("The service has no ExecStart=.", hint="Write the command by hand.")
    before = [line for text in values.get("ExecStartPre", ()) for line in _parse_lines(text, unit)]
    after = [line for text in values.get("ExecStartPost", ()) for line in _parse_lines(text, unit)]
    conditions = [line for text in values.get("ExecCondition", ()) for line in _parse_lines(text, unit)]
    lines = [*before, *main, *after]
    notes = []
    if any(line.is_privileged for line in (*lines, *conditions)):
        hint = "Start it with sudo -n, if it needs them."
        notes.append(("A prefix of + or ! gives the program privileges; here it has those of herdbeat.", hint))
    if conditions:
        hint = "Its exit status 0 runs the beat, 1 skips it; any other fails it, which systemd would skip."
        notes.append(("ExecCondition= became precheck:.", hint))
    return ExecCommand(argv=_join(lines), precheck=_join(conditions) if conditions else (), notes=tuple(notes))


def _join(lines: Sequence[_ExecLine]) -> tuple[str, ...]:
    """Return one program as it is, and several, or one with variables, as a line of a shell."""
    first = lines[0]
    if len(lines) == 1 and not first.may_fail and not first.has_variables:
        return tuple(escape_references(word) for word in first.words)
    return (_SHELL, "-c", escape_references(" && ".join(line.to_shell() for line in lines)))


def _parse_lines(text: str, unit: str) -> list[_ExecLine]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CannotCarry(f"{text}: {error}.", hint="Write the command by hand.") from error
    lines: list[_ExecLine] = []
    while words:
        end = words.index(";") if ";" in words else len(words)
        if words[:end]:
            lines.append(_parse_line(words[:end], unit))
        words = words[end + 1 :]
    return lines


def _parse_line(words: list[str], unit: str) -> _ExecLine:
    prefix = _PREFIXES.match(words[0])
    marks = prefix[0] if prefix is not None else ""
    words = [words[0][len(marks) :], *words[1:]]
    if "@" in marks and len(words) > 1:
        del words[1]  # what the program is to see as its own name
    words = [expand_specifiers(word, unit) for word in words]
    has_variables = ":" not in marks and any(_VARIABLE.search(word) for word in words[1:])
    return _ExecLine(
        words=tuple(words),
        may_fail="-" in marks,
        has_variables=has_variables,
        is_privileged=bool({"+", "!"} & set(marks)),
    )


def expand_specifiers(word: str, unit: str) -> str:
    """Return a value of a unit with `%n`, `%i`, `%h` and the like filled in. Raises CannotCarry for others."""
    full = unit.removesuffix(".service")
    prefix, _, instance = full.partition("@")
    known = {"%": "%", "n": unit, "N": full, "p": prefix, "i": instance, "I": instance.replace("-", "/")}
    known["h"] = os.path.expanduser("~")  # noqa: PTH111 -- Path.home() raises without a home

    def replace_specifier(match: re.Match[str]) -> str:
        if match[1] not in known:
            hint = "Write the value in its place."
            raise CannotCarry(f"The specifier %{match[1]} in {word} is not known here.", hint=hint)
        return known[match[1]]

    return _SPECIFIER.sub(replace_specifier, word)


def _quote(word: str) -> str:
    """Return a word for a shell. `$NAME` alone is split into words, as systemd does; `${NAME}` is not."""
    if re.fullmatch(r"\$[A-Za-z_]\w*", word):
        return word
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    parts = []
    position = 0
    for match in _VARIABLE.finditer(word):
        parts += [_escape(word[position : match.start()]), r"\$" if match[0] == "$$" else match[0]]
        position = match.end()
    return f'"{"".join([*parts, _escape(word[position:])])}"'


def _escape(text: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", text)
