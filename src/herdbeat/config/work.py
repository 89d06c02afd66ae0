"""The work source of a schedule, with its defaults resolved."""

from collections.abc import Mapping

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft
from herdbeat.config.keys.schedule import WORK_SOURCE
from herdbeat.config.report import Misfit, Report
from herdbeat.config.settings import Settings
from herdbeat.errors import Severity
from herdbeat.located import Located, Plain

_GITHUB: dict[str, Plain] = {
    "item": "issues",
    "claim": "labels",
    "state": "open",
    "filter_labels": [],
    "exclude_labels": ["blocked", "wip"],
    "cleanup_on_failure": True,
    "attempts": 3,
}
_LABELS: dict[str, Plain] = {"ready": "ready", "in_progress": "agent-working"}


def check_repository(draft: Draft, schedule: Located, report: Report) -> None:
    """A github source needs a repository, its own or the agent's."""
    source = schedule.child(WORK_SOURCE.name)
    if source is None or source.find(("type",)).value != "github":
        return
    if source.child("repo") is not None or draft.node.child("repo") is not None:
        return
    # herdctl never asks its sources, and its own examples name none: such a file must load.
    severity = Severity.WARNING if report.is_foreign(source.label) else Severity.ERROR
    message = "The github work source names no repository, so it will find no work."
    problem = Misfit(Code.MISSING_KEY, message, hint="Add repo: owner/name.", where=source.label)
    report.misfit(problem, source, severity)


def read_work_source(draft: Draft, settings: Settings) -> Mapping[str, object] | None:
    """The source as plain data. A directory is absolute; a repository may be the agent's own."""
    if settings.maybe(WORK_SOURCE) is None:
        return None
    node = settings.node.child(WORK_SOURCE.name)
    assert node is not None
    written = node.plain()
    assert isinstance(written, dict)
    if written.get("type") == "directory":
        return {"attempts": 3, **written, "path": str(draft.home / str(written["path"]))}
    labels = written.get("labels")
    auth = written.get("auth")
    repo = draft.node.child("repo")
    source: dict[str, object] = {"repo": repo.value if repo else None, **_GITHUB, **written}
    source["labels"] = _LABELS | (labels if isinstance(labels, dict) else {})
    source["auth"] = {"token_env": "GITHUB_TOKEN"} | (auth if isinstance(auth, dict) else {})
    return source
