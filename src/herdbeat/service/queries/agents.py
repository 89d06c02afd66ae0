"""What agents cost, which sessions they keep, and which of their runs need a person."""

import platform
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.agent_records import AttentionRecord, CostRecord, SessionRecord
from herdbeat.domain.agent_run import SpendSource, TokenUsage, sum_usage
from herdbeat.domain.target import AgentSpec
from herdbeat.errors import NotFound, UsageError
from herdbeat.runners.settings import agent_home
from herdbeat.service.queries.selectors import find_schedule, resolve_selector, split_selector
from herdbeat.store.reader import Reader

MAX_ATTENTION_ROWS = 1_000

_OPEN_COMMANDS = {
    "claude": ("claude", "--resume={session}"),
    "codex": ("codex", "resume {session}"),
    "gemini": ("gemini", "--resume={session}"),
    "qwen": ("qwen", "--resume={session}"),
    "opencode": ("opencode", "--session={session}"),
    "cursor": ("cursor-agent", "--resume={session}"),
    "amp": ("amp", "threads continue {session}"),
    "copilot": ("copilot", "--resume={session}"),
}
"""How a person opens a session of a runtime in a terminal: the program, unless the agent names another, and its
arguments.
"""
_HOME_VARIABLES = {"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}
"""The variables that give a CLI the home folder of an isolated agent, and the folder in it; the others follow HOME."""


class CostGrouping(StrEnum):
    SCHEDULE = "schedule"
    TARGET = "target"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """What a schedule, a target or a day has cost, as far as that is known.

    `sources` are where the dollars come from. `unknown_runs` have no price: their dollars are not in `usd`. A line is
    notional if any of its figures is: the login is a subscription, and nothing of it is billed.
    """

    subject: str
    runs: int
    usd: float | None
    usage: TokenUsage | None
    sources: tuple[SpendSource, ...]
    unknown_runs: int
    is_notional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Costs since a day, the most expensive first; by day, the newest first."""

    since: str
    by: CostGrouping
    lines: tuple[CostLine, ...]
    total: CostLine


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session, and the command that opens it by hand on its host; empty if its CLI has none."""

    record: SessionRecord
    open_command: str


def read_costs(
    reader: Reader, selector: str | None, *, since: datetime, zone: ZoneInfo, by: CostGrouping
) -> CostReport:
    """Return the costs of a target, a schedule or the fleet. Raises NotFound."""
    target, name = _split(reader, selector)
    first_day = since.astimezone(zone).date().isoformat()
    records = reader.costs(first_day, target, name)
    groups: dict[str, list[CostRecord]] = {}
    for record in records:
        groups.setdefault(_SUBJECTS[by](record), []).append(record)
    lines = [sum_costs(subject, grouped) for subject, grouped in groups.items()]
    if by is not CostGrouping.DAY:
        lines.sort(key=lambda line: (-(line.usd or 0.0), -(line.usage.total if line.usage else 0), line.subject))
    return CostReport(since=first_day, by=by, lines=tuple(lines), total=sum_costs("total", records))


_SUBJECTS: dict[CostGrouping, Callable[[CostRecord], str]] = {
    CostGrouping.SCHEDULE: lambda record: record.schedule,
    CostGrouping.TARGET: lambda record: record.target,
    CostGrouping.DAY: lambda record: record.day,
}


def sum_costs(subject: str, records: Iterable[CostRecord]) -> CostLine:
    """Return one line for all of them. What is unknown is not counted as 0: it is counted apart."""
    found = list(records)
    priced = [record for record in found if record.usd is not None]
    counted = [record.usage for record in found if record.usage is not None]
    return CostLine(
        subject=subject,
        runs=sum(record.runs for record in found),
        usd=round(sum(record.usd or 0.0 for record in priced), 6) if priced else None,
        usage=sum_usage(counted) if counted else None,
        sources=tuple(source for source in SpendSource if any(record.source is source for record in found)),
        unknown_runs=sum(record.runs for record in found if record.usd is None),
        is_notional=any(record.is_notional for record in found),
    )


def read_sessions(
    reader: Reader, selector: str | None, limit: int, *, state_dir: Path, environ: Mapping[str, str]
) -> list[SessionView]:
    """Return the sessions of a target, a schedule or the fleet, the last used first. Raises NotFound."""
    target, name = _split(reader, selector)
    sessions = reader.sessions(target, name, limit)
    specs = _find_specs(reader, {session.schedule.partition("/")[0] for session in sessions})
    isolated = _find_isolated(reader, {session.schedule for session in sessions}, specs)
    views = []
    for session in sessions:
        agent = session.schedule.partition("/")[0]
        home = agent_home(state_dir, environ, agent) if session.schedule in isolated else None
        views.append(SessionView(record=session, open_command=_open_command(session, specs.get(agent), home)))
    return views


def _find_specs(reader: Reader, targets: Iterable[str]) -> dict[str, AgentSpec]:
    ids = [found[0] for name in targets if (found := reader.find_target(name)) is not None]
    known = reader.targets(ids).values()
    return {target.name: target.spec for target in known if isinstance(target.spec, AgentSpec)}


def _find_isolated(reader: Reader, labels: Iterable[str], specs: Mapping[str, AgentSpec]) -> set[str]:
    """Return the schedules whose sessions are in a home folder of their agent, and not in that of the user."""
    ids: dict[int, str] = {}
    for label in labels:
        with suppress(NotFound):  # the schedule was removed, and its session was not
            ids[find_schedule(reader, label).id] = label
    own = {ids[number] for number, spec in reader.run_specs(ids).items() if spec.isolation is not None}
    return own | {label for label in labels if (spec := specs.get(label.partition("/")[0])) and spec.isolation}


def _open_command(session: SessionRecord, spec: AgentSpec | None, home: Path | None) -> str:
    is_current = spec is not None and session.runtime in (spec.runtime, spec.cli)
    cli = spec.cli if spec is not None and is_current else session.runtime
    if cli not in _OPEN_COMMANDS or (home is not None and session.host != platform.node()):
        return ""  # the folders of another machine are not known here
    program, arguments = _OPEN_COMMANDS[cli]
    if spec is not None and is_current:
        program = spec.program or str(spec.preset.get("program", program))
    command = f"{shlex.quote(program)} {arguments.format(session=shlex.quote(session.session_id))}"
    if home is not None:
        variable, place = _HOME_VARIABLES.get(cli, ("HOME", ""))
        command = f"{variable}={shlex.quote(str(home / place))} {command}"
    folder = spec.working_directory if spec is not None else "."
    return command if folder == "." else f"cd {shlex.quote(folder)} && {command}"


def find_attention(reader: Reader, selector: str | None = None) -> list[AttentionRecord]:
    """Return the runs that need a person, newest first: of a target, a schedule or the fleet. Raises NotFound."""
    target, name = _split(reader, selector)
    marks = reader.open_attention(MAX_ATTENTION_ROWS)
    if target is None:
        return marks
    wanted = target if name is None else f"{target}/{name}"
    return [mark for mark in marks if mark.schedule == wanted or mark.schedule.partition("/")[0] == wanted]


def select_marked_runs(reader: Reader, words: Sequence[str], *, everything: bool) -> tuple[int, ...]:
    """Return what each word means: that run, or all runs of its schedules that need a person. Raises NotFound."""
    if bool(words) == everything:
        raise UsageError("Name runs or schedules, or all of them.", hint="Use names, or --all.")
    if everything:
        return tuple(mark.run_id for mark in find_attention(reader))
    runs: dict[int, None] = {}
    for word in words:
        match = resolve_selector(reader, word)
        if match.run is not None:
            runs[match.run.id] = None
        else:
            labels = {record.label for record in match.schedules}
            runs |= {mark.run_id: None for mark in find_attention(reader) if mark.schedule in labels}
    return tuple(runs)


def _split(reader: Reader, selector: str | None) -> tuple[str | None, str | None]:
    if selector is None:
        return None, None
    target, name = split_selector(selector)
    if reader.find_target(target) is None:
        find_schedule(reader, selector)  # it names the nearest one
    return target, name
