"""The jobs that APScheduler 3 keeps in a database: each becomes a callable, or a command if it has arguments.

Only jobs in a store are found. Those that a program adds at every start are in its source, which is never executed.
"""

import base64
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.config.imports.calendar import WEEKDAYS, CannotCarry, format_values, format_weekdays
from herdbeat.config.imports.document import (
    FleetDocument,
    MigrationNote,
    NoteKind,
    TargetDocument,
    make_name,
    unify_names,
)
from herdbeat.config.imports.pickle_reader import PickledObject, UnreadablePickle, load_pickle
from herdbeat.config.nodes import PlainData
from herdbeat.domain.references import escape_references
from herdbeat.domain.target import TargetKind
from herdbeat.durations import format_duration, parse_duration
from herdbeat.errors import HerdbeatError, SourceLocation, UsageError
from herdbeat.redaction import is_secret_value
from herdbeat.timestamps import format_timestamp

DEFAULT_TABLE = "apscheduler_jobs"
COMMAND_TIMEOUT = "1d"
"""APScheduler ends no job. Ours have one hour by default."""

_HEX_ID_PATTERN = re.compile(r"[0-9a-f]{32}")
_FUNCTION_PATTERN = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_FIELDS = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
_USUAL_GRACE = timedelta(seconds=30)
_LITERALS = (str, int, float, bool, type(None))
_MAX_DEPTH = 20

GENERAL_NOTES = (
    MigrationNote(
        kind=NoteKind.CHANGED,
        message="APScheduler computes a time that the clock change skips or repeats by itself;"
        " in herdbeat a fixed time of day is due exactly once.",
    ),
    MigrationNote(
        kind=NoteKind.CHANGED,
        message=f"APScheduler lets jobs run for ever; these end after {COMMAND_TIMEOUT}.",
        hint="Change timeout: where that is wrong.",
    ),
    MigrationNote(
        kind=NoteKind.HINT,
        message="Functions are imported by name: herdbeat must be able to import their modules.",
        hint="Start herdbeat in the folder of the program, or set PYTHONPATH.",
    ),
)


StoredJob = tuple[str, bytes | dict[str, Any]]
"""The id of a job, and its state: pickled in a database, JSON in what `export_jobs` writes."""


def read_jobs(path: Path, table: str = DEFAULT_TABLE) -> list[StoredJob]:
    """Return every job of a SQLite database, which is only read, or of a file of `export_jobs`. Raises UsageError."""
    if path.suffix == ".json":
        return _read_export(path)
    if not re.fullmatch(r"[A-Za-z_]\w*", table):
        raise UsageError(f'"{table}" is not the name of a table.', hint=f"The usual one is {DEFAULT_TABLE}.")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(f'SELECT id, job_state FROM "{table}" ORDER BY id').fetchall()  # noqa: S608
    except sqlite3.Error as error:
        hint = "Give the SQLite file of the SQLAlchemyJobStore, and --table if it has another name."
        raise UsageError(f"{path}: {error}.", hint=hint) from error
    return [(str(number), bytes(state)) for number, state in rows if isinstance(state, bytes)]


def _read_export(path: Path) -> list[StoredJob]:
    try:
        jobs = json.loads(path.read_bytes())["jobs"]
        return sorted((str(each["id"]), dict(each)) for each in jobs)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        hint = "Give the file that export_jobs() of APScheduler 3.11 writes, or the SQLite file of its job store."
        raise UsageError(f"{path} has no jobs: {type(error).__name__}.", hint=hint) from error


def import_jobs(file: str, jobs: Sequence[StoredJob], zone: str, *, python: str = "python3") -> FleetDocument:
    """Return the fleet of stored jobs. Nothing of them is executed; `python` runs those with arguments."""
    reader = _JobReader(file=file, python=python)
    targets = unify_names(target for number, job in enumerate(jobs, start=1) for target in reader.read(number, *job))
    notes = (*reader.notes, *(GENERAL_NOTES if targets else ()))
    return FleetDocument(origin=f"APScheduler: {file}", targets=targets, notes=notes, settings={"timezone": zone})


@dataclass(slots=True)
class _JobReader:
    """Reads jobs one by one. The line of a location is the number of the job in the table, by id."""

    file: str
    python: str
    notes: list[MigrationNote] = field(default_factory=list)

    def read(self, number: int, job_id: str, data: bytes | dict[str, Any]) -> Iterator[TargetDocument]:
        where = SourceLocation(file=self.file, line=number, column=1)
        notes: list[MigrationNote] = []
        try:
            state = _load_state(data)
            schedules = [
                _forget_past_start(each, state) | _read_policies(state, each, notes, where)
                for each in _iter_schedules(state.get("trigger"), notes, where)
            ]
            kind, keys = self._build_target(state, notes, where)
        except (CannotCarry, UnreadablePickle) as error:
            self._note_loss(job_id, error.message, error.hint, where)
            return
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            # The values of a damaged or manipulated job have any type.
            self._note_loss(job_id, f"The stored job cannot be understood: {type(error).__name__}.", "", where)
            return
        keys["timeout"] = COMMAND_TIMEOUT
        if len(schedules) == 1:
            keys |= schedules[0]
        else:
            keys["schedules"] = {f"time-{position}": each for position, each in enumerate(schedules, start=1)}
        source, name = f'job "{job_id}"', _choose_name(job_id, state)
        yield TargetDocument(kind=kind, name=name, keys=keys, where=where, source=source, notes=tuple(notes))

    def _note_loss(self, job_id: str, message: str, hint: str, where: SourceLocation) -> None:
        hint = hint or "Write the schedule by hand."
        lost = MigrationNote(kind=NoteKind.NOT_CARRIED, message=f'Job "{job_id}": {message}', hint=hint, where=where)
        self.notes.append(lost)

    def _build_target(
        self, state: Mapping[str, Any], notes: list[MigrationNote], where: SourceLocation
    ) -> tuple[TargetKind, dict[str, PlainData]]:
        reference = str(state.get("func"))
        function = _FUNCTION_PATTERN.fullmatch(reference)
        if function is None:
            raise CannotCarry(f"{reference} is not a function that can be imported.", hint="Write it by hand.")
        keys: dict[str, PlainData] = {}
        instances = state.get("max_instances")
        if isinstance(instances, int) and instances > 1:
            keys["instances"] = {"max_concurrent": instances}
        args, keywords = list(state.get("args") or ()), dict(state.get("kwargs") or {})
        executor = state.get("executor")
        if executor not in (None, "default"):
            message = f'The executor "{executor}" has no equivalent.'
            notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, where=where))
        if not args and not keywords:
            return TargetKind.CALLABLE, {"call": reference, **keys}
        code, env = _format_call(function, args, keywords)
        for name in env:
            message = f"The argument {name.rpartition('_')[2].lower()} looks like a secret and was not copied."
            hint = f"Put {name}=… into a file .env beside the fleet file, or into the environment of herdbeat."
            notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, hint=hint, where=where))
        command: list[PlainData] = [self.python, "-c", escape_references(code)]
        variables: dict[str, PlainData] = {name: f"${{{name}}}" for name in env}
        return TargetKind.COMMAND, {"command": command, **({"env": variables} if variables else {}), **keys}


def _load_state(data: bytes | dict[str, Any]) -> dict[str, Any]:
    state = load_pickle(data) if isinstance(data, bytes) else _restore(data)
    if not isinstance(state, dict):
        raise CannotCarry("The stored job is not one of APScheduler 3.", hint="Write the schedule by hand.")
    return state


def _restore(value: Any, depth: int = 0) -> Any:
    """Return what `export_jobs` has written as JSON, with pickles for what JSON does not have. Nothing is imported."""
    if depth > _MAX_DEPTH:
        raise CannotCarry("The stored job is nested too deeply.", hint="Write the schedule by hand.")
    if isinstance(value, list):
        return [_restore(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if "__apscheduler_pickle__" in value:
        return load_pickle(base64.b64decode(str(value["__apscheduler_pickle__"])))
    if "__apscheduler_class__" in value:
        name = str(value["__apscheduler_class__"]).replace(":", ".")
        return PickledObject(name, (), dict(_restore(value["__apscheduler_state__"], depth + 1)))
    return {key: _restore(each, depth + 1) for key, each in value.items()}


def _choose_name(job_id: str, state: Mapping[str, Any]) -> str:
    if not _HEX_ID_PATTERN.fullmatch(job_id):
        return make_name(job_id)
    return make_name(str(state.get("name") or state.get("func") or "job").rpartition(":")[2])


def _format_call(
    function: re.Match[str], args: Sequence[object], keywords: Mapping[str, object]
) -> tuple[str, list[str]]:
    """Return a line of Python that makes the call, and the variables that stand for its secrets."""
    env: list[str] = []
    parts = [_format_literal(value) for value in args]
    for name, value in keywords.items():
        if isinstance(value, str) and value and is_secret_value(str(name), value):
            variable = re.sub(r"\W+", "_", f"{function['name']}_{name}").upper()
            env.append(variable)
            parts.append(f"{name}=os.environ[{variable!r}]")
        else:
            parts.append(f"{name}={_format_literal(value)}")
    imports = f"import os, {function['module']}" if env else f"import {function['module']}"
    return f"{imports}; {function['module']}.{function['name']}({', '.join(parts)})", env


def _format_literal(value: object, depth: int = 1) -> str:
    """Return a value as Python source. Raises CannotCarry for an object."""
    if depth > _MAX_DEPTH:
        raise CannotCarry("An argument is nested too deeply.", hint="Write the schedule by hand.")
    if isinstance(value, _LITERALS):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(_format_literal(item, depth + 1) for item in value)}]"
    if isinstance(value, tuple):
        inner = ", ".join(_format_literal(item, depth + 1) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        pairs = (
            f"{_format_literal(key, depth + 1)}: {_format_literal(item, depth + 1)}" for key, item in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    name = value.name if isinstance(value, PickledObject) else type(value).__name__
    hint = "Only texts, numbers, lists and mappings can be carried. Write the schedule by hand."
    raise CannotCarry(f"An argument is an object of {name}.", hint=hint)


# Triggers.


def _iter_schedules(
    trigger: object, notes: list[MigrationNote], where: SourceLocation
) -> Iterator[dict[str, PlainData]]:
    """Yield the schedules of a trigger: one, or several of an OrTrigger. Raises CannotCarry."""
    if not isinstance(trigger, PickledObject):
        raise CannotCarry("The job has no trigger.", hint="Write the schedule by hand.")
    match trigger.name.rpartition(".")[2]:
        case "IntervalTrigger":
            yield _read_interval(trigger.state, notes, where)
        case "CronTrigger":
            yield _read_cron(trigger.state)
        case "DateTrigger":
            yield {"at": _format_moment(trigger.state.get("run_date"))}
        case "OrTrigger":
            for name, state in trigger.state.get("triggers") or ():
                inner = PickledObject(str(name).replace(":", "."), (), dict(state))
                yield from _iter_schedules(inner, notes, where)
        case name:
            raise CannotCarry(f"A {name} has no equivalent.", hint="Write the schedule by hand.")


def _read_interval(state: Mapping[str, Any], notes: list[MigrationNote], where: SourceLocation) -> dict[str, PlainData]:
    interval = state.get("interval")
    if not isinstance(interval, timedelta) or interval < timedelta(seconds=1):
        raise CannotCarry(f"An interval of {interval} is shorter than a second.", hint="Use at least 1s.")
    whole = timedelta(seconds=round(interval.total_seconds()))
    if whole != interval:
        message = f"The interval of {interval.total_seconds():g}s was rounded to {format_duration(whole)}."
        notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, where=where))
    keys: dict[str, PlainData] = {"every": format_duration(whole), "anchor": "start", **_read_start(state)}
    return keys | _read_end(state) | _read_jitter(state)


def _read_cron(state: Mapping[str, Any]) -> dict[str, PlainData]:
    fields = {each.state.get("name"): each.state.get("expressions") or [] for each in state.get("fields") or ()}
    for name in ("year", "week"):
        if not _is_all(fields.get(name, [])):
            hint = "Write the schedule by hand, with starts_at: and ends_at: for a year."
            raise CannotCarry(f"A CronTrigger with a {name} has no equivalent.", hint=hint)
    days, weekdays = _read_days(fields.get("day", []), fields.get("day_of_week", []))
    values = {name: _expand(fields.get(name, []), *_FIELDS[name]) for name in ("second", "minute", "hour", "month")}
    seconds = [] if values["second"] == {0} else [format_values(values["second"], 0, 59)]
    front = [*seconds, format_values(values["minute"], 0, 59), format_values(values["hour"], 0, 23)]
    keys: dict[str, PlainData] = {"cron": " ".join([*front, days, format_values(values["month"], 1, 12), weekdays])}
    if isinstance(state.get("timezone"), ZoneInfo):
        keys["timezone"] = state["timezone"].key
    return keys | _read_start(state) | _read_end(state) | _read_jitter(state)


def _read_days(days: Sequence[Any], weekdays: Sequence[Any]) -> tuple[str, str]:
    """Return both day fields. APScheduler wants both to match, which cron writes as +."""
    positions = [each for each in days if _kind(each) == "WeekdayPositionExpression"]
    restricted = _expand(weekdays, 0, 6)
    if positions:
        if len(positions) < len(days) or len(restricted) < 7:
            raise CannotCarry("A weekday by number beside other days has no equivalent.", hint="Write two schedules.")
        names = (WEEKDAYS[int(each.state["weekday"])] for each in positions)
        numbers = (int(each.state["option_num"]) + 1 for each in positions)
        pairs = zip(names, numbers, strict=True)
        return "*", ",".join(f"{name}#{'L' if number > 5 else number}" for name, number in pairs)
    last = [each for each in days if _kind(each) == "LastDayOfMonthExpression"]
    numbers_of_month = [each for each in days if each not in last]
    day = format_values(_expand(numbers_of_month, 1, 31), 1, 31) if numbers_of_month else ""
    day = ",".join(filter(None, [day, "L" if last else ""])) if day != "*" else day
    weekday = format_weekdays(restricted)
    return day, f"+{weekday}" if day != "*" and weekday != "*" else weekday


def _kind(expression: object) -> str:
    return expression.name.rpartition(".")[2] if isinstance(expression, PickledObject) else ""


def _is_all(expressions: Sequence[Any]) -> bool:
    return all(_kind(each) == "AllExpression" and not each.state.get("step") for each in expressions)


def _expand(expressions: Sequence[Any], low: int, high: int) -> frozenset[int]:
    """Return the values of a field. Steps count from its lowest value, as in APScheduler."""
    values: set[int] = set()
    for each in expressions:
        step = int(each.state.get("step") or 1)
        match _kind(each):
            case "AllExpression":
                values.update(range(low, high + 1, step))
            case "RangeExpression" | "WeekdayRangeExpression" | "MonthRangeExpression":
                first = int(each.state["first"])
                last = each.state.get("last")
                values.update(range(first, (high if last is None else int(last)) + 1, step))
            case name:
                raise CannotCarry(f"A field with a {name or 'strange value'} has no equivalent.", hint="Use cron:.")
    if not values or min(values) < low or max(values) > high:
        raise CannotCarry("A field of the trigger has no valid value.", hint="Write the schedule by hand.")
    return frozenset(values)


def _forget_past_start(schedule: dict[str, PlainData], job: Mapping[str, Any]) -> dict[str, PlainData]:
    """Return a schedule without the start of an interval that has begun: mostly it is when the job was added."""
    start, next_run_time = schedule.get("starts_at"), job.get("next_run_time")
    if "every" not in schedule or not isinstance(start, str) or not isinstance(next_run_time, datetime):
        return schedule
    has_begun = next_run_time >= datetime.fromisoformat(start) + parse_duration(str(schedule["every"]))
    return {key: value for key, value in schedule.items() if key != "starts_at" or not has_begun}


def _read_start(state: Mapping[str, Any]) -> dict[str, PlainData]:
    start = state.get("start_date")
    return {"starts_at": _format_moment(start)} if isinstance(start, datetime) else {}


def _read_end(state: Mapping[str, Any]) -> dict[str, PlainData]:
    end = state.get("end_date")
    return {"ends_at": _format_moment(end)} if isinstance(end, datetime) else {}


def _read_jitter(state: Mapping[str, Any]) -> dict[str, PlainData]:
    jitter = state.get("jitter")
    return {"jitter": f"{max(1, round(jitter))}s"} if isinstance(jitter, int | float) and jitter > 0 else {}


def _format_moment(moment: object) -> str:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise CannotCarry("A date has no time zone.", hint="Write the schedule by hand.")
    try:
        return format_timestamp(moment)
    except (HerdbeatError, ValueError, OverflowError) as error:
        raise CannotCarry(f"{moment} is out of range.", hint="Write the schedule by hand.") from error


def _read_policies(
    state: Mapping[str, Any], schedule: Mapping[str, PlainData], notes: list[MigrationNote], where: SourceLocation
) -> dict[str, PlainData]:
    keys: dict[str, PlainData] = {}
    grace = state.get("misfire_grace_time")
    late = timedelta(seconds=grace) if isinstance(grace, int | float) else None
    if "at" not in schedule:
        if late is None or late > _USUAL_GRACE:
            keys["catchup"] = "once" if state.get("coalesce", True) else "all"
        elif "every" in schedule:
            keys["catchup"] = "skip"
    if late is not None and late > _USUAL_GRACE:
        keys["max_late"] = format_duration(timedelta(seconds=round(late.total_seconds())))
    elif late is not None:
        message = f"misfire_grace_time={grace}: herdbeat still starts a beat that is up to 30s late."
        notes.append(
            MigrationNote(kind=NoteKind.CHANGED, message=message, hint="See grace: and max_late:.", where=where)
        )
    if isinstance(state.get("max_instances"), int) and state["max_instances"] > 1:
        keys["overlap"] = "allow"
    if state.get("next_run_time") is None:
        keys["enabled"] = False
        message = "The job is paused; its schedule is disabled."
        notes.append(
            MigrationNote(kind=NoteKind.HINT, message=message, hint="Remove enabled: false to run it.", where=where)
        )
    return keys
