"""Renders the prompt of one run: the schedule's template, filled with the values of the beat and the work item.

Text from outside (work items, webhook payloads, chat messages) goes into a prompt as data: as one plain line, or
between `<data>` tags that it cannot close.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import assert_never

from herdbeat.domain.schedule import Schedule
from herdbeat.domain.work_item import WorkItem
from herdbeat.prompts.template import Placeholder, Template, TextBlock, ValueFormatter, scan_template, to_text
from herdbeat.prompts.variables import VARIABLES, ValueTrust, find_variable

FALLBACK_PROMPT = "Execute scheduled task"
MAX_INLINE_LENGTH = 200
"""Untrusted text up to this length may be part of a sentence. Longer text is tagged as data even without a line break:
injected instructions do not need one."""

_WORK_ITEM_NAMES = frozenset({"title", "body", "url"})
_TRUSTED_NAMES = frozenset(variable.name for variable in VARIABLES if variable.trust is ValueTrust.TRUSTED)
_CLOSING_TAG_PATTERN = re.compile(r"<(?=\s*/\s*data)", re.IGNORECASE)
_LINE_BREAK_PATTERN = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def fold_to_line(text: str) -> str:
    """Return the text on one line: every sequence of blanks, line breaks and control characters becomes one space."""
    return " ".join(_CONTROL_PATTERN.sub(" ", text).split())


def is_inline(text: str) -> bool:
    return len(text) <= MAX_INLINE_LENGTH and not _LINE_BREAK_PATTERN.search(text.strip())


def wrap_as_data(text: str, origin: str) -> str:
    """Return the text between `<data from="…">` and `</data>`.

    A closing tag inside the text would end the data early, and the rest would read as the operator's
    instructions; it becomes `&lt;/data`, which a model reads the same and which closes nothing.
    """
    lines = _CONTROL_PATTERN.sub(" ", _LINE_BREAK_PATTERN.sub("\n", text)).strip("\n")
    return f'<data from="{origin}">\n{_CLOSING_TAG_PATTERN.sub("&lt;", lines)}\n</data>'


def work_item_block(item: WorkItem) -> str:
    """Return the block that is appended to a prompt which does not use the work item's variables.

    It has title, ID and URL, then description and metadata; empty parts are omitted.
    """
    header = _format_lines("**{}:** {}", {"Title": item.title, "ID": item.id, "URL": item.url})
    metadata = _format_lines("- **{}:** {}", {"Labels": ", ".join(item.labels), "Priority": item.priority})
    sections = ["---", "## Work Item", header]
    if item.body.strip():
        sections += ["### Description", wrap_as_data(item.body, "work.body")]
    if metadata:
        sections += ["### Metadata", metadata]
    return "\n\n".join(sections)


def _format_lines(line_format: str, values: dict[str, str]) -> str:
    """Return one line per text. A closing tag in a title would look like the end of the data below it."""
    lines = {
        label: _CLOSING_TAG_PATTERN.sub("&lt;", fold_to_line(text)) for label, text in values.items() if text.strip()
    }
    return "\n".join(line_format.format(label, text) for label, text in lines.items())


def build_schedule_prompt(
    schedule: Schedule,
    work_item: WorkItem | None = None,
    *,
    due_at: datetime | None = None,
    default_prompt: str | None = None,
    event: Mapping[str, object] | None = None,
    previous: Mapping[str, object] | None = None,
) -> str:
    """Return the prompt of a run: the schedule's, else the agent's default, else FALLBACK_PROMPT, with its values.

    `event` has the values of a webhook, a chat message or a caller (`payload`, `message`, `metadata`, …),
    `previous` those of the schedule's last run. A known variable without a value becomes an empty string, and
    so do the variables of the beat if `due_at` is None. Unknown names stay as they are written:
    validation rejects them in herdbeat's own files, and in another tool's prompt `{{ ref }}` may be plain text.
    """
    template = _parse_template(schedule.prompt or default_prompt or FALLBACK_PROMPT)
    values = _build_values(schedule, work_item, due_at, event or {}) | {"previous": previous or {}}
    prompt = template.render(values, _make_formatter(schedule, has_work=work_item is not None))
    if work_item is None or has_work_item_placeholder(template):
        return prompt
    return f"{prompt.rstrip()}\n\n{work_item_block(work_item)}"


@lru_cache(maxsize=1_000)
def render_static_prompt(text: str) -> str | None:
    """Return the prompt of a text without placeholders, as most commands and callables have; None if it has any."""
    template = _parse_template(text)
    return None if template.placeholders else template.render({})


@lru_cache(maxsize=1_000)
def _parse_template(text: str) -> Template:
    """Parse a template. Cached, because a schedule has the same prompt at every beat."""
    return scan_template(text)[0]


def has_work_item_placeholder(template: Template) -> bool:
    """True if the prompt uses the work item's variables itself, so that no block is appended."""
    roots = {name.name.partition(".")[0] for name in template.placeholders}
    return not roots.isdisjoint({"work", "issue", *_WORK_ITEM_NAMES})


def _build_values(
    schedule: Schedule, item: WorkItem | None, due_at: datetime | None, event: Mapping[str, object]
) -> dict[str, object]:
    """Return the values of all variables. Later sources override earlier ones."""
    metadata = item.metadata if item else event.get("metadata", {})
    metadata_values = metadata if isinstance(metadata, Mapping) else {}
    fields = _work_item_values(item) if item else {}
    # A webhook payload must not override values that herdbeat itself provides, such as the date or the agent.
    event_values = {name: value for name, value in {**metadata_values, **event}.items() if name not in _TRUSTED_NAMES}
    schedule_values = {"agent": schedule.target, "schedule": schedule.name}
    return {**_beat_values(schedule, due_at), **event_values, **fields, **schedule_values}


def _beat_values(schedule: Schedule, due_at: datetime | None) -> dict[str, object]:
    """Return the trigger's variables, and date and time in the schedule's zone."""
    if due_at is None:
        return {}
    local = due_at.astimezone(schedule.policies.zone)
    variables = schedule.trigger.variables(due_at, schedule.id)
    return {**variables, "date": local.strftime("%Y-%m-%d"), "time": local.strftime("%H:%M")}


def _work_item_values(item: WorkItem) -> dict[str, object]:
    """Return the item as `work.*` and `issue.*`, and under agentd's names, where `title` is the polled issue's."""
    variables = {"title": item.title, "body": item.body, "url": item.url, "assignee": item.assignee}
    shared = {**variables, "labels": ", ".join(item.labels), "metadata": item.metadata}
    family = {**shared, "id": item.id, "number": item.id, "priority": item.priority}
    return {**shared, "source_id": item.id, "priority": item.priority, "work": family, "issue": family}


def _make_formatter(schedule: Schedule, *, has_work: bool) -> ValueFormatter:
    has_work = has_work or schedule.work_source is not None

    def format_value(name: Placeholder, value: object) -> str | TextBlock:
        variable = find_variable(name.name, schedule.trigger.kind, has_work=has_work)
        return name.written if variable is None else _format_value(name.name, value, variable.trust)

    return format_value


def _format_value(name: str, value: object, trust: ValueTrust) -> str | TextBlock:
    if name == "metadata" and isinstance(value, Mapping):
        text = "\n".join(f"{key}: {to_text(value[key])}" for key in sorted(value))
    else:
        text = to_text(value)
    match trust:
        case ValueTrust.TRUSTED:
            return text
        case ValueTrust.UNTRUSTED_LINE:
            return fold_to_line(text)
        case ValueTrust.UNTRUSTED_TEXT:
            return fold_to_line(text) if is_inline(text) else TextBlock(wrap_as_data(text, name))
        case _:
            assert_never(trust)
