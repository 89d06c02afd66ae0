"""The `source:` of an agentd workflow -> the trigger keys of a schedule."""

from collections.abc import Mapping

from herdbeat.codes import Code
from herdbeat.config.foreign import note_either_day
from herdbeat.config.guess import did_you_mean
from herdbeat.config.keys.agentd import NOT_SERVED, SOURCES
from herdbeat.config.report import Report
from herdbeat.errors import ending
from herdbeat.located import Located, Scalar

_POLLED = {"github_issues": "issues", "github_pull_requests": "pull_requests"}
_EVERY_MINUTE = 60


def schedule_keys(workflow: Located, report: Report) -> dict[str, Located] | None:
    """What fires it, in our keys; None after it was said why nothing can."""
    source = workflow.find(("source",))
    kind = source.child("type")
    if kind is None or not isinstance(kind.value, str):
        hint = "Add type: cron, delay, webhook, manual or github_issues."
        report.error(Code.MISSING_KEY, 'The source needs "type".', source.label, hint)
        return None
    if kind.value not in SOURCES:
        _refuse_kind(kind, report)
        return None
    mark = report.errors
    SOURCES[kind.value].check(source, report)
    if report.errors > mark:
        return None
    _note_idle_poll(workflow, kind, report)
    if kind.value == "cron":
        note_either_day(source.find(("expression",)), report)
    return _translated(workflow, source, kind.value)


def _translated(workflow: Located, source: Located, kind: str) -> dict[str, Located]:
    if kind in _POLLED:
        return _polled(workflow, source, kind)
    keys = {"type": source.find(("type",))}
    renamed = {"expression": "cron", "run_at": "at", "secret": "secret"}
    for name, child in source.items():
        if name in renamed:
            keys[renamed[name]] = child
    return keys


def _polled(workflow: Located, source: Located, kind: str) -> dict[str, Located]:
    """Polling is an interval with a work source. agentd marks nothing on GitHub: it remembers what it took."""
    here = source.find(("type",))
    poll = workflow.child("poll_interval")
    # agentd takes 0 and then asks GitHub without a pause; once a second is as eager as we get.
    seconds = max(1, int(str(poll.value))) if poll is not None else _EVERY_MINUTE
    owner, repo = source.find(("owner",)), source.find(("repo",))
    work: dict[str, Located] = {
        "type": _like(here, "github"),
        "repo": _like(repo, f"{owner.value}/{repo.value}"),
        "item": _like(here, _POLLED[kind]),
        "claim": _like(here, "store"),
        "exclude_labels": Located([], here.place),
    }
    labels = source.child("labels")
    if labels is not None:
        work["filter_labels"] = labels
    work |= {name: child for name, child in source.items() if name in ("state", "assignee")}
    return {
        "type": _like(here, "interval"),
        "interval": _like(poll or here, f"{seconds}s"),
        "work_source": Located(work, source.place, source.key),
    }


def _like(node: Located, value: Scalar) -> Located:
    """Another value in the same place."""
    return Located(value, node.place, node.key, written=str(value))


def _refuse_kind(kind: Located, report: Report) -> None:
    if kind.value in NOT_SERVED:
        message = f'Workflows of type "{kind.value}" are not served; this one is left out.'
        report.warning(Code.NOT_SERVED, message, kind.place, f"Served are {_listed(SOURCES)}.")
        return
    guess = did_you_mean(str(kind.value), SOURCES)
    report.error(
        Code.INVALID_VALUE,
        f'"{kind.value}" is not a type of source{ending(guess)}',
        kind.place,
        f"Write {_listed(SOURCES)}.",
    )


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names)


def _note_idle_poll(workflow: Located, kind: Located, report: Report) -> None:
    poll = workflow.child("poll_interval")
    if poll is not None and kind.value not in _POLLED:
        message = f'"poll_interval" has no effect on a {kind.value} source.'
        report.warning(Code.NOT_SERVED, message, poll.label, "Remove it if it misleads.")
