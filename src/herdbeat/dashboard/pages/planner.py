"""The planner: the list of its sessions, and one of them with its reasoning, its proposals and its calls."""

from dataclasses import dataclass
from datetime import timedelta

from herdbeat.bootstrap.handle import Reader
from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.render import PageFrame, render
from herdbeat.domain.planner import PlannedAction, PlannerSession
from herdbeat.durations import humanize
from herdbeat.errors import NotFound

PAGE_SIZE = 50
MAX_ID_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in a list. `done` of its `proposed` actions were carried out."""

    session: PlannerSession
    done: int
    proposed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalLine:
    """A proposal, in words. `is_done` is whether it changed something."""

    action: PlannedAction
    what: str
    is_done: bool


def show_sessions(context: PageContext) -> str:
    frame, query = context.frame, context.query
    group, before = query.get("group", "")[:200], _parse_id(query.get("before", ""))
    sessions = context.reader.planner_sessions(group, before=before, limit=PAGE_SIZE + 1)
    midnight = frame.now.astimezone(context.handle.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return render(
        "planner.html",
        frame,
        group=group,
        lines=build_lines(sessions[:PAGE_SIZE]),
        usage=context.reader.planner_usage(midnight),
        upcoming=min((each.next_at for each in _find_newest_of_groups(sessions)), default=None),
        is_newest=before is None,
        next_before=sessions[PAGE_SIZE - 1].id if len(sessions) > PAGE_SIZE else None,
    )


def show_session(context: PageContext) -> str:
    session = _find_session(context.reader, context.path["session"])
    return render(
        "planner_session.html",
        context.frame,
        session=session,
        took=session.finished_at - session.started_at,
        proposals=[_describe(each, context.frame) for each in session.actions],
    )


def build_lines(sessions: list[PlannerSession]) -> list[SessionLine]:
    return [
        SessionLine(session=each, done=sum(map(_is_done, each.actions)), proposed=len(each.actions))
        for each in sessions
    ]


def _find_session(reader: Reader, text: str) -> PlannerSession:
    number = _parse_id(text)
    found = reader.planner_sessions(session_id=number, limit=1) if number else []
    if not found:
        raise NotFound(f'There is no session "{text[:40]}" of the planner.', hint="Its page lists them all.")
    return found[0]


def _find_newest_of_groups(sessions: list[PlannerSession]) -> list[PlannerSession]:
    """Sessions come with the newest first, and only the newest of a group says when the next one is."""
    newest: dict[str, PlannerSession] = {}
    for each in sessions:
        newest.setdefault(each.group, each)
    return list(newest.values())


def _describe(action: PlannedAction, frame: PageFrame) -> ProposalLine:
    parts = [str(action.kind).removeprefix("propose_").replace("_", " ")]
    if action.every_s is not None:
        parts = [f"every {humanize(timedelta(seconds=action.every_s))}"]
    if action.at is not None:
        parts.append(frame.clock(action.at))
    if action.lasts_s is not None:
        parts.append(f"for {humanize(timedelta(seconds=action.lasts_s))}")
    return ProposalLine(action=action, what=" ".join(parts), is_done=_is_done(action))


def _is_done(action: PlannedAction) -> bool:
    return action.outcome.startswith("done")


def _parse_id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_ID_DIGITS else None
