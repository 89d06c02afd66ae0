"""The work item as a prompt shows it when its author did not place it himself."""

from herdbeat.domain.work_item import WorkItem
from herdbeat.prompts.outside import fold_to_line, wrap_as_data


def work_item_block(item: WorkItem) -> str:
    """The documented block: title, ID and URL, then description and metadata. Empty parts are left out."""
    sections = ["---", "## Work Item", _header_lines(item)]
    if item.body.strip():
        sections += ["### Description", wrap_as_data(item.body, "work.body")]
    if metadata := _metadata_lines(item):
        sections += ["### Metadata", metadata]
    return "\n\n".join(sections)


def _header_lines(item: WorkItem) -> str:
    return _format_lines("**{}:** {}", {"Title": item.title, "ID": item.id, "URL": item.url})


def _metadata_lines(item: WorkItem) -> str:
    return _format_lines("- **{}:** {}", {"Labels": ", ".join(item.labels), "Priority": item.priority})


def _format_lines(line_format: str, values_by_label: dict[str, str]) -> str:
    return "\n".join(
        line_format.format(name, fold_to_line(value_text))
        for name, value_text in values_by_label.items()
        if value_text.strip()
    )
