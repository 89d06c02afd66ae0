"""Crontabs: those of users, and those of the system with a user in each line.

A line becomes a command that the crontab's own shell runs, or an endpoint if it is nothing but a call of curl.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from herdbeat.config.imports.curl import parse_curl
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
from herdbeat.errors import CronNeverFires, CronParseError, HerdbeatError, SourceLocation, TimezoneError
from herdbeat.redaction import find_source_secrets, redact
from herdbeat.timestamps import parse_zone
from herdbeat.triggers.cron.parser import NICKNAMES, parse_expression

_ASSIGNMENT = re.compile(r"""(?P<quote>["']?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)\s*=\s*(?P<value>.*)""")
_CONTROL_CHARACTER_PATTERN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FIELD = r"[0-9A-Za-z*/,~-]+"
_ENTRY = re.compile(rf"(?P<when>@\w+|{_FIELD}(?:\s+{_FIELD}){{4}})\s+(?P<rest>\S.*)")
_USER = re.compile(r"(?P<user>[A-Za-z_][\w.-]*\$?)\s+(?P<rest>\S.*)")
_OUTPUT_TO_NOWHERE = re.compile(r"(\s*(&>>?|[12]?>>?&?)\s*(/dev/null|[12]))*\s*$")
_WRAPPERS = frozenset({"sudo", "nice", "ionice", "chronic", "time", "exec", "env", "command", "nohup", "setsid"})
_INTERPRETERS = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh|(?:.*/)?(?:python|perl|ruby|node|php)[0-9.]*")
_OWN_VARIABLES = frozenset({"CRON_TZ", "MAILTO", "MAILFROM", "SHELL", "HOME", "RANDOM_DELAY", "CONTENT_TYPE"})
_NICKNAMES = {"@annually": "@yearly", "@midnight": "@daily"}

DEFAULT_SHELL = "/bin/sh"
COMMAND_TIMEOUT = "1d"
"""cron ends no command. Ours have one hour by default, which a backup may exceed."""

GENERAL_NOTES = (
    MigrationNote(
        kind=NoteKind.CHANGED,
        message="cron starts a line again while it still runs; herdbeat skips that beat and records it.",
        hint="Write overlap: allow and instances: { max_concurrent: N } where several may run.",
    ),
    MigrationNote(
        kind=NoteKind.CHANGED,
        message=f"cron lets commands run for ever; these end after {COMMAND_TIMEOUT}, and endpoints after 30s.",
        hint="Change timeout: where that is wrong.",
    ),
    MigrationNote(
        kind=NoteKind.HINT,
        message="Beats of a time in which the machine was off are recorded as missed. As with cron, they do not run.",
        hint="Write catchup: once where they should.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabFile:
    """The text of one crontab. `has_users` lines have a user between the time and the command."""

    name: str
    text: str
    has_users: bool = False


@dataclass(slots=True)
class _Section:
    """What the lines above an entry have set: variables, and the comment right above it."""

    variables: dict[str, str] = field(default_factory=dict)
    comment: list[str] = field(default_factory=list)


def import_crontabs(files: Sequence[CrontabFile], zone: str, *, user: str) -> FleetDocument:
    """Return the fleet of these crontabs. `zone` is that of this machine, `user` the one who runs herdbeat."""
    reader = _CrontabReader(user)
    targets = unify_names(target for file in files for target in reader.read(file))
    settings: dict[str, PlainData] = {"timezone": zone}
    if reader.private_hosts:
        settings["egress"] = {"allow": list(reader.private_hosts)}
    notes = [*reader.notes, *(GENERAL_NOTES if targets else ())]
    comments = [line for address in sorted(reader.recipients) for line in _describe_mail(address)]
    origin = ", ".join(file.name for file in files)
    return FleetDocument(
        origin=origin, targets=targets, notes=tuple(notes), settings=settings, comments=tuple(comments)
    )


class _CrontabReader:
    """Reads crontabs line by line. What cannot be carried is collected in `notes`."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.notes: list[MigrationNote] = []
        self.recipients: set[str] = set()
        self.private_hosts: dict[str, None] = {}

    def read(self, file: CrontabFile) -> Iterator[TargetDocument]:
        section = _Section()
        for number, line in enumerate(split_lines(file.text), start=1):
            where = SourceLocation(file=file.name, line=number, column=1)
            text = line.strip(" \t")
            if not text:
                section.comment.clear()
            elif _CONTROL_CHARACTER_PATTERN.search(text):
                hint = "Remove it."
                self._note(NoteKind.NOT_CARRIED, "The line contains a control character.", hint, where)
            elif text.startswith("#"):
                self._read_comment(text, section, where)
            elif assignment := _ASSIGNMENT.fullmatch(text):
                self._assign(assignment, section, where)
            else:
                yield from self._read_entry(text, file, section, where)
                section.comment.clear()

    def _read_comment(self, text: str, section: _Section, where: SourceLocation) -> None:
        comment = text.lstrip("#").strip()
        entry = _ENTRY.fullmatch(comment)
        if entry is not None and _is_expression(entry["when"]):
            message, hint = f"The line is switched off by its #: {comment}", "Write it with enabled: false to keep it."
            self._note(NoteKind.HINT, message, hint, where)
        elif comment:
            section.comment.append(comment)

    def _assign(self, assignment: re.Match[str], section: _Section, where: SourceLocation) -> None:
        name, value = assignment["name"], _unquote(assignment["value"].strip())
        section.variables[name] = value
        section.comment.clear()
        if name not in _OWN_VARIABLES:
            self.notes += hide_secrets({name: value}, where)[1]
        if name == "MAILTO" and value:
            self.recipients.update(address.strip() for address in value.split(",") if address.strip())
            message = f"Output is not mailed to {value}; herdbeat keeps it: herdbeat logs."
            hint = "For a message about failures, use the notify block at the end of the new file."
            self._note(NoteKind.CHANGED, message, hint, where)
        elif name == "RANDOM_DELAY" and value not in ("", "0"):
            message, hint = f"RANDOM_DELAY={value} was not carried over.", f"Write jitter: {value}m on the schedules."
            self._note(NoteKind.NOT_CARRIED, message, hint, where)

    def _read_entry(
        self, text: str, file: CrontabFile, section: _Section, where: SourceLocation
    ) -> Iterator[TargetDocument]:
        entry = _ENTRY.fullmatch(text.removeprefix("-"))  # SUSE: a leading - keeps the line out of the log
        if entry is None:
            message, hint = f"This is not a line of a crontab: {text}", "Correct it, or write the schedule by hand."
            self._note(NoteKind.NOT_CARRIED, message, hint, where)
            return
        when, rest, user = entry["when"], entry["rest"], self.user
        if file.has_users:
            named = _USER.fullmatch(rest)
            if named is None:
                message = f"The line has no command behind its user: {text}"
                self._note(NoteKind.NOT_CARRIED, message, "Add the command.", where)
                return
            user, rest = named["user"].partition(":")[0], named["rest"]
        notes: list[MigrationNote] = []
        schedule = self._read_time(when, section, where, notes)
        if schedule is None:
            return
        if user != self.user:
            message = f"The line runs as {user}; herdbeat runs everything as the user that runs herdbeat."
            hint = f"Run herdbeat as {user}, or write sudo -n -u {user} before the command."
            notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, hint=hint, where=where))
        target = self._build_target(rest, section, where, home=f"~{user}" if user != self.user else "~")
        keys: dict[str, PlainData] = {**target.keys, **schedule}
        yield replace(target, keys=keys, source=text, notes=(*notes, *target.notes))

    def _read_time(
        self, when: str, section: _Section, where: SourceLocation, notes: list[MigrationNote]
    ) -> dict[str, PlainData] | None:
        """Return the trigger; None after the reason was noted."""
        if when.lower() == "@reboot":
            message = "@reboot has no equivalent: herdbeat starts commands by time, not with the machine."
            hint = "Start the program as a service, or use every: with first_run: now."
            self._note(NoteKind.NOT_CARRIED, message, hint, where)
            return None
        problem, hint = _find_problem(when)
        if problem:
            self._note(NoteKind.NOT_CARRIED, problem, hint, where)
            return None
        schedule: dict[str, PlainData] = {"cron": _normalize_expression(when)}
        zone = section.variables.get("CRON_TZ", "")
        if zone:
            try:
                schedule["timezone"] = parse_zone(zone).key
            except TimezoneError as error:
                message = f"CRON_TZ={zone}: {error.message} The time zone of the fleet is used."
                notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, hint=error.hint, where=where))
        return schedule

    def _build_target(self, command: str, section: _Section, where: SourceLocation, home: str) -> TargetDocument:
        shell_text, stdin = split_input(command)
        description = {"description": " ".join(section.comment)} if section.comment else {}
        name = make_name(name_command(shell_text))
        call = parse_curl(_OUTPUT_TO_NOWHERE.sub("", shell_text)) if stdin is None else None
        if call is not None:
            headers, notes = hide_secrets(call.headers, where, prefix=f"{call.name}_")
            keys: dict[str, PlainData] = {**description, **call.keys, **({"headers": headers} if headers else {})}
            notes += [MigrationNote(kind=kind, message=text, where=where) for kind, text in call.notes]
            self.private_hosts.update(dict.fromkeys(call.private_hosts))
            return TargetDocument(
                kind=TargetKind.ENDPOINT, name=make_name(call.name), keys=keys, where=where, notes=tuple(notes)
            )
        variables = {key: value for key, value in section.variables.items() if key not in _OWN_VARIABLES}
        env, _ = hide_secrets(variables, where)
        notes = list(_note_inline_secrets(shell_text, where))
        shell = section.variables.get("SHELL") or DEFAULT_SHELL
        keys = {
            **description,
            "command": [shell, "-c", escape_references(shell_text)],
            "working_directory": section.variables.get("HOME") or home,
            **({"env": env} if env else {}),
            **({"prompt": escape_references(stdin.replace("{{", "\\{{"))} if stdin is not None else {}),
            "timeout": COMMAND_TIMEOUT,
        }
        return TargetDocument(kind=TargetKind.COMMAND, name=name, keys=keys, where=where, notes=tuple(notes))

    def _note(self, kind: NoteKind, message: str, hint: str, where: SourceLocation) -> None:
        self.notes.append(MigrationNote(kind=kind, message=message, hint=hint, where=where))


def _note_inline_secrets(shell_text: str, where: SourceLocation) -> Iterator[MigrationNote]:
    if redact(shell_text) != shell_text or find_source_secrets(shell_text):
        message = "The command contains what looks like a password; it was copied as it is."
        hint = "Move it into env: as ${NAME}, with its value in a file .env."
        yield MigrationNote(kind=NoteKind.HINT, message=message, hint=hint, where=where)


def _is_expression(when: str) -> bool:
    return when.lower() in (*NICKNAMES, "@reboot") or not _find_problem(when)[0]


def _find_problem(when: str) -> tuple[str, str]:
    """Return why an expression cannot be carried, and what to do; two empty texts if it can."""
    if "~" in when:
        return f"{when}: the random time of ~ has no equivalent.", "Choose a time, and write jitter: for a spread."
    try:
        parse_expression(when)
    except (CronParseError, CronNeverFires) as error:
        return error.message, error.hint
    except HerdbeatError as error:
        return str(error), error.hint
    return "", ""


def _normalize_expression(when: str) -> str:
    lower = when.lower()
    return _NICKNAMES.get(lower, lower) if when.startswith("@") else " ".join(when.split())


def split_input(command: str) -> tuple[str, str | None]:
    r"""Return the command, and what its line gives it on standard input; None without any.

    The first % that has no backslash begins the input, and every later one is a new line. `\%` is a %.
    """
    parts = re.split(r"(?<!\\)%", command)
    texts = [part.replace("\\%", "%") for part in parts]
    if len(texts) == 1:
        return texts[0].strip(), None
    return texts[0].strip(), "\n".join(texts[1:]).rstrip("\n") + "\n"


def name_command(shell_text: str) -> str:
    """Return what a command line is about: the program or script that it starts, without wrappers and folders."""
    text = re.split(r"[|;]|&&|\|\|", re.sub(r"^\s*(cd|\.|source|test|\[)\s[^;&|]*(;|&&|\|\|)\s*", "", shell_text))[0]
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        words = text.split()
    words = _skip_wrappers(words)
    if len(words) > 1 and _INTERPRETERS.fullmatch(words[0]):
        arguments = [word for word in words[1:] if not word.startswith("-")]
        words = arguments[:1] or words
    program = words[0].rpartition("/")[2] if words else ""
    return re.sub(r"\.(sh|py|pl|rb|js|php|bash)$", "", program) or "job"


def _skip_wrappers(words: list[str]) -> list[str]:
    while words:
        program = words[0].rpartition("/")[2]
        if "=" in words[0] and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        elif program in _WRAPPERS:
            words = _drop_options(words[1:])
        elif program in ("timeout", "flock"):
            words = _drop_options(words[1:])[1:]  # a duration, or the file of the lock
        else:
            return words
    return words


def _drop_options(words: list[str]) -> list[str]:
    """Return the words after the options of a wrapper. `-n 10` and `-u www-data` have a value of their own."""
    while words and words[0].startswith("-"):
        has_value = words[0] in ("-n", "-u", "-c", "-k", "-s", "-w") and len(words) > 2 and "/" not in words[1]
        words = words[2 if has_value and not words[0].startswith("--") else 1 :]
    return words


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _describe_mail(address: str) -> Sequence[str]:
    return (
        f"MAILTO={address}: remove the # to get mail about failures, if this machine has a mail server.",
        "notify:",
        f"  mail: {{ type: email, host: localhost, security: none, from: herdbeat@localhost, to: {address} }}",
    )


def is_cron_file_name(name: str) -> bool:
    """Whether cron reads a file of this name in /etc/cron.d: letters, digits, _ and - alone."""
    return re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None
