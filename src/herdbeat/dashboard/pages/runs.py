"""The page Runs: find a run by its result, its schedule or a word. Quiet runs are folded."""

from dataclasses import dataclass

from herdbeat.bootstrap.handle import Filter
from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.render import render
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import NotFound
from herdbeat.service.queries.selectors import find_runs

PAGE_SIZE = 50
MAX_SCANNED = 2_000
"""Runs that are looked through for a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """What the address asks for. Words look into schedule, answer and error; `-word` excludes."""

    words: tuple[str, ...]
    schedule: str
    status: RunStatus | None
    before: int | None
    shows_quiet: bool

    def matches(self, run: RunRecord) -> bool:
        if run.quiet and not self.shows_quiet:
            return False
        text = f"{run.schedule} {run.summary or ''} {run.error or ''} {run.source} {run.origin}".lower()
        return all((word.removeprefix("-") in text) is not word.startswith("-") for word in self.words)


def show_runs(context: PageContext) -> str:
    query = context.query
    status = query.get("status", "")
    wanted = RunFilter(
        words=tuple(query.get("q", "")[:200].lower().split()),
        schedule=query.get("schedule", "")[:200],
        status=RunStatus(status) if status in set(RunStatus) else None,
        before=parse_short_id(query.get("before", "")) if query.get("before") else None,
        shows_quiet=query.get("quiet") == "1",
    )
    runs, next_before, quiet = _find(context, wanted)
    return render(
        "runs.html",
        context.frame,
        runs=runs,
        text=query.get("q", "")[:200],
        schedule=wanted.schedule,
        status=status if wanted.status else "",
        all_statuses=tuple(RunStatus),
        shows_quiet=wanted.shows_quiet,
        quiet=quiet,
        is_newest=wanted.before is None,
        next_before=None if next_before is None else format_short_id(next_before),
    )


def _find(context: PageContext, wanted: RunFilter) -> tuple[list[RunRecord], int | None, int]:
    """Return a page of runs, where the next one begins, and how many quiet runs were folded away."""
    found: list[RunRecord] = []
    before, scanned, quiet = wanted.before, 0, 0
    while scanned < MAX_SCANNED:
        page = _read_page(context, wanted, before)
        for run in page:
            if len(found) == PAGE_SIZE:
                return found, found[-1].id, quiet
            quiet += bool(run.quiet and not wanted.shows_quiet)
            if wanted.matches(run):
                found.append(run)
        if len(page) < PAGE_SIZE:
            return found, None, quiet
        before, scanned = page[-1].id, scanned + len(page)
    return found, before, quiet


def _read_page(context: PageContext, wanted: RunFilter, before: int | None) -> list[RunRecord]:
    if not wanted.schedule:
        declined = wanted.status is not None
        return context.reader.runs(
            Filter(status=wanted.status, before=before, limit=PAGE_SIZE, include_declined=declined)
        )
    try:
        return find_runs(context.reader, wanted.schedule, wanted.status, since=None, before=before, limit=PAGE_SIZE)
    except NotFound:
        return []
