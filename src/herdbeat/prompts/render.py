"""The prompt of one run: the schedule's words, with what is known about this beat put in."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import assert_never

from herdbeat.domain.schedule import Schedule
from herdbeat.domain.work_item import WorkItem
from herdbeat.prompts.block import work_item_block
from herdbeat.prompts.names import NAMES, Shape, lookup
from herdbeat.prompts.outside import is_short, mark, one_line
from herdbeat.prompts.template import Block, Name, Show, Template, scan, to_text

FALLBACK_PROMPT = "Execute scheduled task"

_NAMES_OF_ITEM = frozenset({"title", "body", "url"})
_OUR_WORDS = frozenset(row.name for row in NAMES if row.shape is Shape.OURS)


def build_schedule_prompt(
    schedule: Schedule,
    work_item: WorkItem | None = None,
    *,
    due_at: datetime | None = None,
    default_prompt: str | None = None,
    event: Mapping[str, object] | None = None,
    previous: Mapping[str, object] | None = None,
) -> str:
    """What to tell the target: the schedule's prompt, else the agent's default, else a plain request.

    `event` is what a webhook, a chat message or a caller brought (`payload`, `message`, `metadata`, …),
    `previous` the schedule's last run. A known name without a value becomes empty text, and so do the
    names of the beat without `due_at`. What the check would refuse stays as it is written: a native
    file never gets this far with it, and in another tool's prompt `{{ ref }}` may be meant as text.
    """
    text = schedule.prompt or default_prompt or FALLBACK_PROMPT
    template = _template(text)
    values = _values(schedule, work_item, due_at, event or {}) | {"previous": previous or {}}
    prompt = template.render(values, _shower(schedule, has_work=work_item is not None))
    if work_item is None or names_item(template):
        return prompt
    return f"{prompt.rstrip()}\n\n{work_item_block(work_item)}"


@lru_cache(maxsize=1_000)
def fixed_prompt(text: str) -> str | None:
    """The whole prompt, if there is nothing to look up in its words: the way of nearly every command and callable."""
    template = _template(text)
    return None if template.names else template.render({})


@lru_cache(maxsize=1_000)
def _template(text: str) -> Template:
    """Read once: a schedule says the same words at every beat."""
    return scan(text)[0]


def names_item(template: Template) -> bool:
    """Does the prompt place the work item itself? Then it needs no block."""
    firsts = {name.name.partition(".")[0] for name in template.names}
    return not firsts.isdisjoint({"work", "issue", *_NAMES_OF_ITEM})


def _values(
    schedule: Schedule, item: WorkItem | None, due_at: datetime | None, event: Mapping[str, object]
) -> dict[str, object]:
    """Everything a name may find; later sources win."""
    metadata = item.metadata if item else event.get("metadata", {})
    loose = metadata if isinstance(metadata, Mapping) else {}
    fields = _item_values(item) if item else {}
    # A call says what it brings, never what herdbeat knows: a payload cannot set the date, or name the agent.
    brought = {name: value for name, value in {**loose, **event}.items() if name not in _OUR_WORDS}
    ours = {"agent": schedule.target, "schedule": schedule.name}
    return {**_beat_values(schedule, due_at), **brought, **fields, **ours}


def _beat_values(schedule: Schedule, due_at: datetime | None) -> dict[str, object]:
    """The trigger's words, and the day and time that a person in the schedule's zone would write."""
    if due_at is None:
        return {}
    local = due_at.astimezone(schedule.policies.zone)
    words = schedule.trigger.variables(due_at, schedule.id)
    return {**words, "date": local.strftime("%Y-%m-%d"), "time": local.strftime("%H:%M")}


def _item_values(item: WorkItem) -> dict[str, object]:
    """The item under its two families, and as agentd's bare words, which there mean the polled issue."""
    words = {"title": item.title, "body": item.body, "url": item.url, "assignee": item.assignee}
    shared = {**words, "labels": ", ".join(item.labels), "metadata": item.metadata}
    family = {**shared, "id": item.id, "number": item.id, "priority": item.priority}
    return {**shared, "source_id": item.id, "priority": item.priority, "work": family, "issue": family}


def _shower(schedule: Schedule, *, has_work: bool) -> Show:
    has_work = has_work or schedule.work_source is not None

    def show(name: Name, value: object) -> str | Block:
        row = lookup(name.name, schedule.trigger.kind, has_work=has_work)
        return name.written if row is None else _show(name.name, value, row.shape)

    return show


def _show(name: str, value: object, shape: Shape) -> str | Block:
    text = _listing(value) if name == "metadata" and isinstance(value, Mapping) else to_text(value)
    match shape:
        case Shape.OURS:
            return text
        case Shape.LINE:
            return one_line(text)
        case Shape.TEXT:
            return one_line(text) if is_short(text) else Block(mark(text, name))
        case _:
            assert_never(shape)


def _listing(values: Mapping[str, object]) -> str:
    return "\n".join(f"{key}: {to_text(values[key])}" for key in sorted(values))
