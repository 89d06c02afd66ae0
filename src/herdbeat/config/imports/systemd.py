"""systemd timers with their services: each timer becomes a command, `ExecStart=` and its neighbours its arguments."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from herdbeat.config.imports.calendar import CannotCarry, parse_calendar, parse_span
from herdbeat.config.imports.document import (
    FleetDocument,
    MigrationNote,
    NoteKind,
    TargetDocument,
    hide_secrets,
    make_name,
    split_lines,
    unify_names,
)
from herdbeat.config.nodes import PlainData
from herdbeat.domain.references import escape_references
from herdbeat.domain.target import TargetKind
from herdbeat.durations import format_duration
from herdbeat.errors import SourceLocation

COMMAND_TIMEOUT = "1d"
"""A service of type oneshot may run for ever. Ours have one hour by default, which a backup may exceed."""

_SECOND = timedelta(seconds=1)
_WHITESPACE = " \t\r\n"
_ONCE_KEYS = ("OnActiveSec", "OnBootSec", "OnStartupSec")
_REPEAT_KEYS = {"OnUnitActiveSec": "start", "OnUnitInactiveSec": "end"}
_LOST_TIMER_KEYS = {
    "WakeSystem": ("It does not wake the machine.", "Keep the machine on, or keep this timer."),
    "OnClockChange": ("A change of the clock starts nothing.", "Keep this timer."),
    "OnTimezoneChange": ("A change of the time zone starts nothing.", "Keep this timer."),
}
_TIMER_KEYS = frozenset(
    {
        *("OnCalendar", "Unit", "Persistent", "RandomizedDelaySec", "FixedRandomDelay", "AccuracySec"),
        *("RemainAfterElapse", "DeferReactivation", "RandomizedOffsetSec"),
        *(*_ONCE_KEYS, *_REPEAT_KEYS, *_LOST_TIMER_KEYS),
    }
)
_SERVICE_KEYS = frozenset(
    {
        *("Type", "ExecStart", "ExecStartPre", "ExecStartPost", "ExecCondition", "WorkingDirectory", "Environment"),
        *("EnvironmentFile", "PassEnvironment", "User", "Group", "DynamicUser", "TimeoutStartSec", "TimeoutSec"),
        *("RuntimeMaxSec", "Restart", "RestartSec", "RemainAfterExit", "StandardOutput", "StandardError"),
        *("SyslogIdentifier", "KillMode", "TimeoutStopSec", "SuccessExitStatus", "LogLevelMax"),
    }
)
_UNIT_CONDITIONS = re.compile(r"(Condition|Assert)\w+")
_NO_VALUES = frozenset({"no", "false", "off", "0", ""})

GENERAL_NOTES = (
    MigrationNote(
        kind=NoteKind.HINT,
        message="Whether a timer is enabled is not in its file: all of them were imported.",
        hint="Remove those that are disabled, and disable the others in systemd: systemctl disable --now NAME.timer",
    ),
    MigrationNote(
        kind=NoteKind.CHANGED,
        message="systemd starts timers within AccuracySec (1 minute by default); herdbeat starts them at once.",
        hint="Write jitter: 1m where many start together.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEntry:
    """One assignment of a unit file."""

    section: str
    key: str
    value: str
    where: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """A unit with its drop-ins. `is_user` units belong to the service manager of a user."""

    name: str
    where: SourceLocation
    entries: tuple[UnitEntry, ...]
    is_user: bool = False

    def get(self, section: str, key: str) -> UnitEntry | None:
        """Return the last assignment; None if there is none, or if an empty one has undone it."""
        found = self.get_all(section, key)
        return found[-1] if found else None

    def get_all(self, section: str, key: str) -> list[UnitEntry]:
        """Return every assignment since the last empty one."""
        entries: list[UnitEntry] = []
        for entry in self.entries:
            if entry.section == section and entry.key == key:
                entries = [*entries, entry] if entry.value else []
        return entries

    def is_true(self, section: str, key: str) -> bool:
        entry = self.get(section, key)
        return entry is not None and entry.value.lower() not in _NO_VALUES


def parse_unit(name: str, texts: Iterable[tuple[str, str]], *, is_user: bool = False) -> UnitFile:
    """Return a unit from the texts of its file and its drop-ins, each with the name of its file."""
    entries: list[UnitEntry] = []
    files = list(texts)
    for file, text in files:
        entries += _parse_entries(file, text)
    where = SourceLocation(file=files[0][0] if files else name, line=1, column=1)
    return UnitFile(name=name, where=where, entries=tuple(entries), is_user=is_user)


def _parse_entries(file: str, text: str) -> Iterator[UnitEntry]:
    section, lines = "", split_lines(text)
    number = 0
    while number < len(lines):
        start, line = number, lines[number].strip(_WHITESPACE)
        number += 1
        if not line or line[0] in "#;":
            continue
        while line.endswith("\\") and number < len(lines):
            following = lines[number].strip(_WHITESPACE)
            number += 1
            if following[:1] not in ("#", ";"):  # comments between the lines of one value are not part of it
                line = f"{line[:-1].rstrip()} {following}"
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        if equals:
            where = SourceLocation(file=file, line=start + 1, column=1)
            yield UnitEntry(section=section, key=key.strip(_WHITESPACE), value=value.strip(_WHITESPACE), where=where)


def import_timers(
    timers: Sequence[UnitFile], services: Mapping[str, UnitFile], zone: str, *, user: str
) -> FleetDocument:
    """Return the fleet of these timers. `zone` is that of this machine, `user` the one who runs herdbeat."""
    reader = _TimerReader(services=services, zone=zone, user=user)
    targets = unify_names(target for timer in timers for target in reader.read(timer))
    origin = "systemd: " + (", ".join(timer.name for timer in timers[:5]) or "no timers")
    origin += f" and {len(timers) - 5} more" if len(timers) > 5 else ""
    notes = (*reader.notes, *(GENERAL_NOTES if targets else ()))
    return FleetDocument(origin=origin, targets=targets, notes=notes, settings={"timezone": zone})


@dataclass(slots=True)
class _TimerReader:
    services: Mapping[str, UnitFile]
    zone: str
    user: str
    notes: list[MigrationNote] = field(default_factory=list)

    def read(self, timer: UnitFile) -> Iterator[TargetDocument]:
        stem = timer.name.removesuffix(".timer")
        if stem.endswith("@"):
            hint = "Give the timer of one instance, such as a link backup@home.timer to this file."
            self._note_loss("A template has no schedule of its own: it depends on its instance.", hint, timer.where)
            return
        named = timer.get("Timer", "Unit")
        service_name = named.value if named is not None else f"{stem}.service"
        service = self._find_service(service_name)
        where = named.where if named is not None else timer.where
        if not service_name.endswith(".service"):
            message = f"The timer starts {service_name}, which is not a service."
            self._note_loss(message, "Write the command by hand.", where)
            return
        if service is None:
            message = f"There is no {service_name} beside the timer or in the folders of systemd."
            self._note_loss(message, "Put the service into the same folder, or write the command by hand.", where)
            return
        yield from self._build(timer, service)

    def _find_service(self, name: str) -> UnitFile | None:
        template = re.sub(r"@[^.]+\.service$", "@.service", name)
        found = self.services.get(name) or self.services.get(template)
        return None if found is None else replace(found, name=name)

    def _build(self, timer: UnitFile, service: UnitFile) -> Iterator[TargetDocument]:
        notes: list[MigrationNote] = []
        schedules = self._read_schedules(timer, notes)
        if not schedules:
            self.notes += notes
            return
        try:
            command = build_command(
                {key: [entry.value for entry in service.get_all("Service", key)] for key in _SERVICE_KEYS},
                service.name,
            )
        except CannotCarry as error:
            start = service.get("Service", "ExecStart")
            self._note_loss(error.message, error.hint, start.where if start is not None else service.where)
            return
        start = service.get("Service", "ExecStart")
        where = start.where if start is not None else service.where
        notes += [
            MigrationNote(kind=NoteKind.CHANGED, message=text, hint=hint, where=where) for text, hint in command.notes
        ]
        keys: dict[str, PlainData] = {}
        description = service.get("Unit", "Description") or timer.get("Unit", "Description")
        if description is not None:
            keys["description"] = escape_references(self._expand(description, service, notes))
        keys |= {"command": list(command.argv), **self._read_environment(service, notes)}
        if command.precheck:
            keys["precheck"] = list(command.precheck)
        keys["timeout"] = self._read_timeout(service, notes)
        self._note_lost_keys(timer, service, notes)
        if len(schedules) == 1:
            keys |= schedules[0]
        else:
            keys["schedules"] = {f"time-{number}": dict(each) for number, each in enumerate(schedules, start=1)}
        yield TargetDocument(
            kind=TargetKind.COMMAND,
            name=make_name(timer.name.removesuffix(".timer")),
            keys=keys,
            where=timer.where,
            source=f"and {service.where.file}",
            notes=tuple(notes),
        )

    # When it is due.

    def _read_schedules(self, timer: UnitFile, notes: list[MigrationNote]) -> list[dict[str, PlainData]]:
        schedules: list[dict[str, PlainData]] = []
        shared = self._read_policies(timer, notes)
        for entry in timer.get_all("Timer", "OnCalendar"):
            try:
                keys = parse_calendar(entry.value, self.zone).to_keys()
            except CannotCarry as error:
                self._add(notes, NoteKind.NOT_CARRIED, f"OnCalendar={error.message}", error.hint, entry.where)
                continue
            schedules.append({**keys, **(shared if "cron" in keys else {})})
        schedules += [{**each, **shared} for each in self._read_intervals(timer, notes)]
        if not schedules and not notes:
            self._note_loss("The timer has no time.", "Add OnCalendar= or OnUnitActiveSec=.", timer.where)
        return schedules

    def _read_intervals(self, timer: UnitFile, notes: list[MigrationNote]) -> Iterator[dict[str, PlainData]]:
        repeats = [entry for key in _REPEAT_KEYS for entry in timer.get_all("Timer", key)]
        starts = [entry for key in _ONCE_KEYS for entry in timer.get_all("Timer", key)]
        for entry in repeats:
            span = self._read_span(entry, notes)
            if span is None:
                continue
            yield {"every": format_duration(span), "anchor": _REPEAT_KEYS[entry.key]}
        for entry in starts:
            if repeats:
                message = f"{entry.key}={entry.value} was not carried over: the first run is when the fleet starts."
                self._add(notes, NoteKind.CHANGED, message, "first_run: after_interval waits once.", entry.where)
            else:
                message = f"{entry.key}={entry.value} runs once after the start of the machine or of systemd."
                hint = "herdbeat has no such trigger: keep the timer, or use every:."
                self._add(notes, NoteKind.NOT_CARRIED, message, hint, entry.where)

    def _read_policies(self, timer: UnitFile, notes: list[MigrationNote]) -> dict[str, PlainData]:
        keys: dict[str, PlainData] = {}
        if timer.is_true("Timer", "Persistent"):
            keys["catchup"] = "once"
        delay = timer.get("Timer", "RandomizedDelaySec")
        span = self._read_span(delay, notes) if delay is not None else None
        if delay is not None and span is not None:
            keys["jitter"] = format_duration(span)
            if not timer.is_true("Timer", "FixedRandomDelay"):
                message = "RandomizedDelaySec= draws a new delay each time; the delay of jitter: is calculated."
                self._add(notes, NoteKind.CHANGED, message, "", delay.where)
        accuracy = timer.get("Timer", "AccuracySec")
        if accuracy is not None:
            message = f"AccuracySec={accuracy.value} has no effect: herdbeat starts at the due time."
            self._add(notes, NoteKind.HINT, message, "", accuracy.where)
        return keys

    def _read_span(self, entry: UnitEntry, notes: list[MigrationNote]) -> timedelta | None:
        """Return a span in whole seconds; None after a note, and for one of zero."""
        try:
            span = parse_span(entry.value)
        except CannotCarry as error:
            self._add(notes, NoteKind.NOT_CARRIED, f"{entry.key}={error.message}", error.hint, entry.where)
            return None
        if span is None or span <= timedelta(0):
            return None
        whole = max(_SECOND, timedelta(seconds=round(span.total_seconds())))
        if whole != span:
            message = f"{entry.key}={entry.value} was rounded to {format_duration(whole)}."
            self._add(notes, NoteKind.CHANGED, message, "", entry.where)
        return whole

    # What it runs, and as whom.

    def _read_environment(self, service: UnitFile, notes: list[MigrationNote]) -> dict[str, PlainData]:
        values: dict[str, str] = {}
        for entry in service.get_all("Service", "Environment"):
            values |= _parse_assignments(self._expand(entry, service, notes))
        where = next((entry.where for entry in service.get_all("Service", "Environment")), service.where)
        env, hidden = hide_secrets(values, where)
        notes += hidden
        for entry in service.get_all("Service", "PassEnvironment"):
            env |= {name: f"${{{name}:-}}" for name in entry.value.split() if re.fullmatch(r"[A-Za-z_]\w*", name)}
        for entry in service.get_all("Service", "EnvironmentFile"):
            message = f"The variables of {entry.value.removeprefix('-')} were not carried over."
            hint = "Name them under env: as NAME: ${NAME}, and put the file beside the fleet file as .env."
            self._add(notes, NoteKind.NOT_CARRIED, message, hint, entry.where)
        folder = service.get("Service", "WorkingDirectory")
        path = "~" if service.is_user else "/"
        if folder is not None:
            path = escape_references(self._expand(folder, service, notes).removeprefix("-"))
        self._note_user(service, notes)
        return {"working_directory": path, **({"env": env} if env else {})}

    def _expand(self, entry: UnitEntry, service: UnitFile, notes: list[MigrationNote]) -> str:
        try:
            return expand_specifiers(entry.value, service.name)
        except CannotCarry as error:
            self._add(notes, NoteKind.NOT_CARRIED, error.message, error.hint, entry.where)
            return entry.value

    def _note_user(self, service: UnitFile, notes: list[MigrationNote]) -> None:
        entry = service.get("Service", "User")
        user = entry.value if entry is not None else (self.user if service.is_user else "root")
        if user == self.user:
            return
        message = f"The service runs as {user}; herdbeat runs everything as the user that runs herdbeat."
        hint = f"Run herdbeat as {user}, or write sudo -n -u {user} before the command."
        self._add(notes, NoteKind.CHANGED, message, hint, entry.where if entry is not None else service.where)

    def _read_timeout(self, service: UnitFile, notes: list[MigrationNote]) -> str:
        for key in ("RuntimeMaxSec", "TimeoutStartSec", "TimeoutSec"):
            entry = service.get("Service", key)
            is_start = key != "RuntimeMaxSec"
            if entry is None or (is_start and not _is_oneshot(service)):
                continue
            span = self._read_span(entry, notes)
            if span is not None:
                return format_duration(span)
        return COMMAND_TIMEOUT

    def _note_lost_keys(self, timer: UnitFile, service: UnitFile, notes: list[MigrationNote]) -> None:
        for key, (message, hint) in _LOST_TIMER_KEYS.items():
            entry = timer.get("Timer", key)
            if entry is not None and timer.is_true("Timer", key):
                self._add(notes, NoteKind.NOT_CARRIED, f"{key}={entry.value}: {message}", hint, entry.where)
        restart = service.get("Service", "Restart")
        if restart is not None and restart.value != "no":
            message = f"Restart={restart.value} was not carried over."
            self._add(notes, NoteKind.NOT_CARRIED, message, "Write retry: { attempts: 3 }.", restart.where)
        for entry in (service.get("Unit", "OnFailure"), service.get("Unit", "OnSuccess")):
            if entry is not None:
                message = f"{entry.key}={entry.value} was not carried over."
                hint = "Use notify: for messages, or on_error: for a command after a failure."
                self._add(notes, NoteKind.NOT_CARRIED, message, hint, entry.where)
        for entry in service.entries:
            if entry.section == "Unit" and _UNIT_CONDITIONS.fullmatch(entry.key) and entry.value:
                message, hint = f"{entry.key}={entry.value} was not carried over.", "Write it as precheck:."
                self._add(notes, NoteKind.NOT_CARRIED, message, hint, entry.where)
        unknown = {entry.key: entry for entry in service.entries if _is_unknown(entry, "Service", _SERVICE_KEYS)}
        unknown |= {entry.key: entry for entry in timer.entries if _is_unknown(entry, "Timer", _TIMER_KEYS)}
        if unknown:
            message = f"Settings of systemd were not carried over: {', '.join(unknown)}."
            hint = "Keep the limits and the sandbox by starting the command with systemd-run, or give them up."
            self._add(notes, NoteKind.NOT_CARRIED, message, hint, next(iter(unknown.values())).where)

    def _note_loss(self, message: str, hint: str, where: SourceLocation) -> None:
        self._add(self.notes, NoteKind.NOT_CARRIED, message, hint, where)

    @staticmethod
    def _add(notes: list[MigrationNote], kind: NoteKind, message: str, hint: str, where: SourceLocation) -> None:
        notes.append(MigrationNote(kind=kind, message=message, hint=hint, where=where))


def _is_unknown(entry: UnitEntry, section: str, known: frozenset[str]) -> bool:
    return entry.section == section and entry.key not in known and bool(entry.value)


def _is_oneshot(service: UnitFile) -> bool:
    kind = service.get("Service", "Type")
    return kind is not None and kind.value == "oneshot"


def _parse_assignments(text: str) -> dict[str, str]:
    """Return the variables of `A=1 "B=two words"`. Other words are ignored, as systemd does."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = (word.partition("=") for word in words)
    return {name: value for name, equals, value in pairs if equals and re.fullmatch(r"[A-Za-z_]\w*", name)}


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
