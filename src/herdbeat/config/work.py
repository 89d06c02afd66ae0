"""The work source of a schedule, with its defaults resolved."""

from collections.abc import Mapping

from herdbeat.codes import Code
from herdbeat.config.drafts import TargetSource
from herdbeat.config.keys.schedule import WORK_SOURCE
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.settings import SectionReader
from herdbeat.errors import Severity
from herdbeat.located import ConfigNode, PlainData

_GITHUB_DEFAULTS: dict[str, PlainData] = {
    "item": "issues",
    "claim": "labels",
    "state": "open",
    "filter_labels": [],
    "exclude_labels": ["blocked", "wip"],
    "cleanup_on_failure": True,
    "attempts": 3,
}
_LABEL_DEFAULTS: dict[str, PlainData] = {"ready": "ready", "in_progress": "agent-working"}


def check_repository(target_source: TargetSource, schedule: ConfigNode, diagnostics: Diagnostics) -> None:
    """A github source needs a repository, its own or the agent's."""
    source = schedule.child(WORK_SOURCE.name)
    if source is None or source.find(("type",)).value != "github":
        return
    if source.child("repo") is not None or target_source.node.child("repo") is not None:
        return
    # herdctl never asks its sources, and its own examples name none: such a file must load.
    severity = Severity.WARNING if diagnostics.is_foreign(source.report_location) else Severity.ERROR
    message = "The github work source names no repository, so it will find no work."
    problem = ValidationError(Code.MISSING_KEY, message, hint="Add repo: owner/name.", where=source.report_location)
    diagnostics.add(problem, source, severity)


def build_work_source(target_source: TargetSource, settings: SectionReader) -> Mapping[str, object] | None:
    """The source as plain data. A directory is absolute; a repository may be the agent's own."""
    if settings.get_optional(WORK_SOURCE) is None:
        return None
    node = settings.node.child(WORK_SOURCE.name)
    assert node is not None
    written = node.to_data()
    assert isinstance(written, dict)
    if written.get("type") == "directory":
        return {"attempts": 3, **written, "path": str(target_source.home / str(written["path"]))}
    labels = written.get("labels")
    auth = written.get("auth")
    repo = target_source.node.child("repo")
    source: dict[str, object] = {"repo": repo.value if repo else None, **_GITHUB_DEFAULTS, **written}
    source["labels"] = _LABEL_DEFAULTS | (labels if isinstance(labels, dict) else {})
    source["auth"] = {"token_env": "GITHUB_TOKEN"} | (auth if isinstance(auth, dict) else {})
    return source
