"""Parse the command line: which command it names, and its arguments and options.

Written by hand, because importing one of the usual parsers costs more than the whole rest of a quick command such as
`next` (docs/decisions has the numbers).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdbeat.cli.spec import HELP, TOP_LEVEL_FLAGS, UTC, VERSION, ZONE, CliCommand, Option
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS
from herdbeat.errors import UsageError, did_you_mean_suffix, truncate_for_message

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_ALL_OPTIONS = (*(option for command in COMMANDS for option in command.all_options), VERSION)
_OPTIONS_BY_NAME = {name: option for option in _ALL_OPTIONS for name in option.names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedArgs:
    """The arguments of a command: positionals, options with a value, and switches."""

    positionals: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    repeated: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def positional(self, index: int) -> str | None:
        return self.positionals[index] if index < len(self.positionals) else None

    def value(self, option: Option) -> str | None:
        return self.values.get(option.key)

    def all_values(self, option: Option) -> tuple[str, ...]:
        """Return all values of an option that may be repeated, in order."""
        return self.repeated.get(option.key, ())

    def has(self, option: Option) -> bool:
        return option.key in self.switches


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A parsed command line. Without a command it means help, of a group if `group` is set."""

    command: CliCommand | None
    args: ParsedArgs
    group: str = ""


@dataclass(slots=True)
class _Tokens:
    """Positionals and options, separated. Options may come before the command, so they are checked at the end."""

    positionals: list[str] = field(default_factory=list)
    used: list[Option] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    repeated: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def parse_args(argv: Sequence[str]) -> Invocation:
    """Parse a command line. Raises UsageError, which suggests the closest word."""
    parts = _tokenize(argv)
    if parts.positionals[:1] == ["help"]:
        parts.positionals.pop(0)
        parts.used.append(HELP)
    command, words = _match_command(parts.positionals)
    _check_options(parts, command)
    if command is None:
        return Invocation(command=None, args=_build_args((), parts), group=words[0] if words else "")
    if not any(option is HELP for option in parts.used):
        _check_arguments(command, words)
        _check_utf8(command, words, parts)
        for option in command.options:
            if option.choices and option.key in parts.values:
                parts.values[option.key] = parts.values[option.key].lower()
                _check_choice(option.names[-1], option.choices, parts.values[option.key])
    return Invocation(command=command, args=_build_args(tuple(words), parts))


def _build_args(words: tuple[str, ...], parts: _Tokens) -> ParsedArgs:
    switches = frozenset(option.key for option in parts.used if not option.value)
    return ParsedArgs(positionals=words, values=parts.values, switches=switches, repeated=parts.repeated)


def _tokenize(argv: Sequence[str]) -> _Tokens:
    parts = _Tokens()
    remaining = list(argv)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            parts.positionals += remaining
            break
        if word == "-" or not word.startswith("-"):
            parts.positionals.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            _read_option(parts, name, value if equals else None, remaining)
        else:
            _read_short_options(parts, word, remaining)
    return parts


def _read_short_options(parts: _Tokens, word: str, remaining: list[str]) -> None:
    """Read `-n3`, `-n 3` or `-qv`: an option with a value takes what follows, switches may be joined."""
    name, after = word[:2], word[2:]
    option = _OPTIONS_BY_NAME.get(name)
    if option is None:
        parts.unknown.append(word)
    elif option.value:
        _read_option(parts, name, after.removeprefix("=") if after else None, remaining)
    else:
        parts.used.append(option)
        if after:
            _read_short_options(parts, f"-{after}", remaining)


def _read_option(parts: _Tokens, name: str, value: str | None, remaining: list[str]) -> None:
    option = _OPTIONS_BY_NAME.get(name)
    if option is None:
        parts.unknown.append(name)
        return
    if not option.value and value is not None:
        raise UsageError(f"{name} takes no value.", hint=f"Write {name} without a value.")
    parts.used.append(option)
    if option.value:
        if value is None and not remaining:
            raise UsageError(f"{name} needs a value.", hint=f"Write {name} {option.value}.")
        written = remaining.pop(0) if value is None else value
        if not option.repeats and option.key in parts.values:
            # When the last one won, `--command echo --command hi` ran "hi".
            raise UsageError(f"{name} is given twice.", hint=f"Write {name} once.")
        parts.values[option.key] = written
        if option.repeats:
            parts.repeated[option.key] = (*parts.repeated.get(option.key, ()), written)


def _match_command(words: list[str]) -> tuple[CliCommand | None, list[str]]:
    """Return the command that the first words name, and the words that are left."""
    if not words:
        return None, []
    for length in (2, 1):
        for command in COMMANDS:
            if words[:length] in map(str.split, command.names):
                return command, words[length:]
    if words[0] in COMMAND_GROUPS and len(words) == 1:
        return None, words
    raise _unknown_command_error(words)


def _unknown_command_error(words: list[str]) -> UsageError:
    typed = " ".join(words[:2]) if words[0] in COMMAND_GROUPS else words[0]
    names = [name for command in COMMANDS for name in command.names]
    # `herdbeat nxt` may also be a mistyped second word of a group, such as `show`.
    seconds = {name.split()[1]: name for name in names if " " in name}
    suggestion = closest_match(typed, [*names, *COMMAND_GROUPS]) or seconds.get(closest_match(typed, seconds) or "")
    message = f'Unknown command "{truncate_for_message(typed)}"{did_you_mean_suffix(suggestion)}'
    return UsageError(message, hint='Run "herdbeat --help" to see all commands.')


def _check_options(parts: _Tokens, command: CliCommand | None) -> None:
    allowed = command.all_options if command else TOP_LEVEL_FLAGS
    unknown = [*parts.unknown, *(option.names[-1] for option in parts.used if option not in allowed)]
    if not unknown:
        return
    command_name = f"herdbeat {command.name}" if command else "herdbeat"
    # Without the dashes, which all have in common: --since resembles --json only by them.
    known = {name.lstrip("-"): name for option in allowed for name in option.names}
    suffix = did_you_mean_suffix(known.get(closest_match(unknown[0].lstrip("-"), known) or ""))
    message = f'"{command_name}" has no option {truncate_for_message(unknown[0])}{suffix}'
    raise UsageError(message, hint=f'Run "{command_name} --help" to see its options.')


def _check_arguments(command: CliCommand, words: list[str]) -> None:
    hint = f'Run "herdbeat {command.name} --help" for examples.'
    takes_many = bool(command.arguments) and command.arguments[-1].many
    if len(words) > len(command.arguments) and not takes_many:
        extra = words[len(command.arguments)]
        if command.name == "next":
            hint = f'Put an expression in quotes: herdbeat next "{truncate_for_message(" ".join(words))}"'
        raise UsageError(f'"{truncate_for_message(extra)}" is an unexpected argument.', hint=hint)
    for argument, word in zip(command.arguments, words, strict=False):
        _check_choice(argument.name, argument.choices, word)
    missing = [argument for argument in command.arguments[len(words) :] if argument.required]
    if missing:
        raise UsageError(f"{missing[0].name} is missing ({missing[0].meaning}).", hint=hint)


def _check_utf8(command: CliCommand, words: list[str], parts: _Tokens) -> None:
    """Raise UsageError for a word that is not UTF-8: unlike paths, words end in the ledger, in JSON or on a screen."""
    last = len(command.arguments) - 1
    texts = [word for index, word in enumerate(words) if not command.arguments[min(index, last)].takes_file]
    for option in command.options:
        if option.value and not option.takes_file:
            texts += parts.repeated.get(option.key) or [parts.values.get(option.key, "")]
    broken = next((text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text)), None)
    if broken is not None:
        message = f'"{truncate_for_message(broken)}" is not valid UTF-8.'
        raise UsageError(message, hint="Use UTF-8 in your terminal or script.")


def _check_choice(name: str, choices: tuple[str, ...], word: str) -> None:
    if choices and word not in choices:
        suffix = did_you_mean_suffix(closest_match(word, choices))
        hint = f"Use one of {', '.join(choices)}." if len(choices) > 1 else f"Use {choices[0]}."
        raise UsageError(f'{name} cannot be "{truncate_for_message(word)}"{suffix}', hint=hint)


def parse_count(text: str, maximum: int, option: str = "--count", *, minimum: int = 1) -> int:
    """Return the value of an option that is a whole number. Raises UsageError."""
    # isdecimal() alone accepts ٣, which int() reads and hardly anybody else does.
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and minimum <= int(text) <= maximum):
        raise UsageError(f'{option} cannot be "{text[:20]}".', hint=f"Use a whole number from {minimum} to {maximum}.")
    return int(text)


def closest_match(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest to this one; None if none is close."""

    from difflib import get_close_matches  # noqa: PLC0415 - few commands need it

    suggestion = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return suggestion[0] if suggestion else None


def parse_zone_flags(args: ParsedArgs) -> "ZoneInfo | None":
    """Return the zone of --tz or --utc; None without either. Raises UsageError or TimezoneError."""
    from herdbeat.timestamps import parse_zone  # noqa: PLC0415 -- most commands show no time

    name = args.value(ZONE)
    if args.has(UTC):
        if name is not None:
            raise UsageError("--utc and --tz cannot be combined.", hint="Use one of them.")
        return parse_zone("UTC")
    return None if name is None else parse_zone(name)
