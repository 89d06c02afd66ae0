"""From words to a command: which one is meant, and what was given to it.

Written by hand because a program that answers `next` in an instant cannot import a parser first: the usual
packages cost more than the whole rest of the call (docs/decisions has the numbers).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from herdbeat.errors import UsageError, ending, shown
from herdbeat.faces.cli.commands import COMMANDS, GROUPS, NOT_YET, find
from herdbeat.faces.cli.options import BARE, HELP, VERSION, Command, Option

_OPTIONS: dict[str, Option] = {
    name: option
    for option in (*(option for command in COMMANDS for option in command.all_options), VERSION)
    for name in option.names
}


_PATHS = frozenset({"PATH", "FILE", "DIR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a command was given: its words, the options that took a value, and the switches."""

    words: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    repeated: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def word(self, index: int) -> str | None:
        return self.words[index] if index < len(self.words) else None

    def value(self, option: Option) -> str | None:
        return self.values.get(option.key)

    def every_value(self, option: Option) -> tuple[str, ...]:
        """All values of an option that may be repeated, in the order they were written."""
        return self.repeated.get(option.key, ())

    def has(self, option: Option) -> bool:
        return option.key in self.switches


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command line, understood. Without a command it asks for help (of a group, if `group` is set)."""

    command: Command | None
    given: Given
    group: str = ""


@dataclass(slots=True)
class _Sorted:
    """Words and options apart. An option may stand anywhere, so only the end tells whose it is."""

    words: list[str] = field(default_factory=list)
    used: list[Option] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    repeated: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def understand(argv: Sequence[str]) -> Request:
    """Read a command line. Raises UsageError, which guesses what was meant."""
    parts = _sort(argv)
    if parts.words[:1] == ["help"]:
        parts.words.pop(0)
        parts.used.append(HELP)
    command, words = _command(parts.words)
    if command is None:
        _refuse_unknown_options(parts, None)
        return Request(command=None, given=_given((), parts), group=words[0] if words else "")
    _refuse_unknown_options(parts, command)
    if not any(option is HELP for option in parts.used):
        _check_words(command, words)
        _check_text(command, words, parts)
        _check_choices(command, parts)
    return Request(command=command, given=_given(tuple(words), parts))


def _given(words: tuple[str, ...], parts: _Sorted) -> Given:
    switches = frozenset(option.key for option in parts.used if not option.value)
    return Given(words=words, values=parts.values, switches=switches, repeated=parts.repeated)


def _sort(argv: Sequence[str]) -> _Sorted:
    parts = _Sorted()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            parts.words += rest
            break
        if word == "-" or not word.startswith("-"):
            parts.words.append(word)
        elif word.startswith("--"):
            _take(parts, *_split(word), rest)
        else:
            _take_short(parts, word, rest)
    return parts


def _split(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _take_short(parts: _Sorted, word: str, rest: list[str]) -> None:
    """`-n3`, `-n 3` and `-qv`: a letter with a value takes what follows, switches stand side by side."""
    name, after = word[:2], word[2:]
    option = _OPTIONS.get(name)
    if option is None:
        parts.unknown.append(word)
    elif option.value:
        _take(parts, name, after.removeprefix("=") if after else None, rest)
    else:
        parts.used.append(option)
        if after:
            _take_short(parts, f"-{after}", rest)


def _take(parts: _Sorted, name: str, value: str | None, rest: list[str]) -> None:
    option = _OPTIONS.get(name)
    if option is None:
        parts.unknown.append(name)
        return
    if not option.value and value is not None:
        raise UsageError(f"{name} takes no value.", hint=f"Write {name} alone.")
    parts.used.append(option)
    if option.value:
        if value is None and not rest:
            raise UsageError(f"{name} needs a value.", hint=f"Write {name} {option.value}: {option.meaning}.")
        written = rest.pop(0) if value is None else value
        if not option.repeats and option.key in parts.values:
            # The last one used to win, and `--command echo --command hi` ran "hi".
            raise UsageError(f"{name} is given twice.", hint=f"Write {name} once.")
        parts.values[option.key] = written
        if option.repeats:
            parts.repeated[option.key] = (*parts.repeated.get(option.key, ()), written)


def _command(words: list[str]) -> tuple[Command | None, list[str]]:
    """The command that the first words name, and the words left for it."""
    if not words:
        return None, []
    for length in (2, 1):
        if command := find(tuple(words[:length])):
            return command, words[length:]
    if words[0] in GROUPS and len(words) == 1:
        return None, words
    raise _unknown_command(words)


def _unknown_command(words: list[str]) -> UsageError:
    if words[0] in NOT_YET:
        raise UsageError(f'"herdbeat {words[0]}" is not there yet.', hint=NOT_YET[words[0]])
    tried = " ".join(words[:2]) if words[0] in GROUPS else words[0]
    paths = [path for command in COMMANDS for path in (command.path, *command.aliases)]
    names = [" ".join(path) for path in paths] + list(GROUPS)
    # `herdbeat nxt` may also have been meant for the second word of a group, such as `show`.
    seconds = {path[-1]: " ".join(path) for path in paths if len(path) > 1}
    near = guess(tried, names) or seconds.get(guess(tried, seconds) or "")
    return UsageError(
        f'There is no command "{shown(tried)}"{ending(near)}', hint='Run "herdbeat --help" to see all commands.'
    )


def _refuse_unknown_options(parts: _Sorted, command: Command | None) -> None:
    allowed = command.all_options if command else BARE
    unknown = [*parts.unknown, *(option.names[-1] for option in parts.used if option not in allowed)]
    if not unknown:
        return
    whose = f"herdbeat {command.name}" if command else "herdbeat"
    near = guess(unknown[0], [name for option in allowed for name in option.names])
    hint = f'Run "{whose} --help" to see its options.'
    raise UsageError(f'"{whose}" has no option {shown(unknown[0])}{ending(near)}', hint=hint)


def _check_words(command: Command, words: list[str]) -> None:
    hint = f'Run "herdbeat {command.name} --help" for examples.'
    takes_many = bool(command.arguments) and command.arguments[-1].many
    if len(words) > len(command.arguments) and not takes_many:
        extra = words[len(command.arguments)]
        if command.name == "next":
            hint = f'Put an expression in quotes: herdbeat next "{shown(" ".join(words))}"'
        raise UsageError(f'"{shown(extra)}" is one word too many.', hint=hint)
    for argument, word in zip(command.arguments, words, strict=False):
        _check_choice(argument.name, argument.choices, word)
    missing = [argument for argument in command.arguments[len(words) :] if argument.required]
    if missing:
        raise UsageError(f"{missing[0].name} is missing: {missing[0].meaning}.", hint=hint)


def _check_text(command: Command, words: list[str], parts: _Sorted) -> None:
    """Only a path may be bytes that are no text: any other word ends in the ledger, in JSON or on a screen."""
    last = len(command.arguments) - 1
    texts = [word for index, word in enumerate(words) if not command.arguments[min(index, last)].takes_file]
    for option in command.options:
        if option.value and option.value not in _PATHS:
            texts += parts.repeated.get(option.key) or [parts.values.get(option.key, "")]
    broken = next((text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text)), None)
    if broken is not None:
        raise UsageError(f'"{shown(broken)}" is not text: its bytes are no UTF-8.', hint="Write it in UTF-8.")


def _check_choices(command: Command, parts: _Sorted) -> None:
    for option in command.options:
        if option.key in parts.values:
            _check_choice(option.names[-1], option.choices, parts.values[option.key])


def _check_choice(name: str, choices: tuple[str, ...], word: str) -> None:
    if choices and word not in choices:
        near = guess(word, choices)
        listed = " or ".join(choices)
        raise UsageError(f'{name} cannot be "{shown(word)}"{ending(near)}', hint=f"Write {listed}.")


def guess(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, if one is near."""
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return near[0] if near else None
