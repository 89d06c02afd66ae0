"""The work item as a prompt shows it when its author did not place it himself."""

from herdbeat.domain.work_item import WorkItem
from herdbeat.prompts.outside import mark, one_line


def work_item_block(item: WorkItem) -> str:
    """The documented block: title, ID and URL, then description and metadata. Empty parts are left out."""
    sections = ["---", "## Work Item", _facts(item)]
    if item.body.strip():
        sections += ["### Description", mark(item.body, "work.body")]
    if metadata := _metadata(item):
        sections += ["### Metadata", metadata]
    return "\n\n".join(sections)


def _facts(item: WorkItem) -> str:
    return _lines("**{}:** {}", {"Title": item.title, "ID": item.id, "URL": item.url})


def _metadata(item: WorkItem) -> str:
    return _lines("- **{}:** {}", {"Labels": ", ".join(item.labels), "Priority": item.priority})


def _lines(form: str, facts: dict[str, str]) -> str:
    return "\n".join(form.format(name, one_line(fact)) for name, fact in facts.items() if fact.strip())
