"""Every name a prompt may say, what it means and which schedules have it. The one table of them.

The check, the renderer and the page `docs/reference/prompts.md` all read it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from herdbeat.domain.trigger import TriggerKind


class Shape(StrEnum):
    """Whose words a value holds, and how they go into a prompt."""

    OURS = "ours"  # written by herdbeat or its operator: as it is
    LINE = "line"  # from outside, one line: line breaks and control characters become spaces
    TEXT = "text"  # from outside, of any length: marked as data when it is more than a short line


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One row: a name, or a family of them (`payload.*` is every name that goes on after the dot)."""

    name: str
    meaning: str
    kinds: frozenset[TriggerKind]
    needs_work: bool = False
    shape: Shape = Shape.OURS

    def matches(self, name: str) -> bool:
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1]) and len(name) >= len(self.name)
        return name == self.name

    def is_provided(self, kind: TriggerKind, *, has_work: bool) -> bool:
        return kind in self.kinds and (has_work or not self.needs_work)


ALL = frozenset(TriggerKind)
_CRON = frozenset({TriggerKind.CRON})
_DELAY = frozenset({TriggerKind.DELAY})
_WEBHOOK = frozenset({TriggerKind.WEBHOOK})
_CHAT = frozenset({TriggerKind.CHAT})
_CALLED = frozenset({TriggerKind.WEBHOOK, TriggerKind.MANUAL})


def _ours(name: str, meaning: str, kinds: frozenset[TriggerKind] = ALL) -> Known:
    return Known(name=name, meaning=meaning, kinds=kinds)


def _line(name: str, meaning: str, kinds: frozenset[TriggerKind] = ALL) -> Known:
    return Known(name=name, meaning=meaning, kinds=kinds, shape=Shape.LINE)


def _text(name: str, meaning: str, kinds: frozenset[TriggerKind] = ALL) -> Known:
    return Known(name=name, meaning=meaning, kinds=kinds, shape=Shape.TEXT)


def _work(name: str, meaning: str, shape: Shape = Shape.LINE) -> Known:
    return Known(name=name, meaning=meaning, kinds=ALL, needs_work=True, shape=shape)


def _item(family: str, thing: str) -> Iterator[Known]:
    """The fields of a work item, which has two names: `work` always, `issue` as herdctl's documents say."""
    yield _work(f"{family}.id", f"the id of the {thing}")
    if family == "issue":
        yield _work("issue.number", "the number of the issue")
    yield _work(f"{family}.title", f"the title of the {thing}")
    yield _work(f"{family}.body", f"the description of the {thing}", Shape.TEXT)
    yield _work(f"{family}.url", f"the address of the {thing}")
    yield _work(f"{family}.labels", "its labels, joined by commas")
    yield _work(f"{family}.assignee", "who has it, if anybody")
    yield _work(f"{family}.priority", "critical, high, medium or low")
    yield _work(f"{family}.metadata.*", f"what else the source says about the {thing}", Shape.TEXT)


OWN_NAMES: tuple[Known, ...] = (
    _ours("date", "the day of the beat in the schedule's zone, 2026-04-01"),
    _ours("time", "the time of the beat in the schedule's zone, 09:00"),
    _ours("fire_time", "the instant of the beat in UTC, 2026-04-01T09:00:00Z"),
    _ours("agent", "the name of the target"),
    _ours("schedule", "the name of the schedule"),
    _ours("cron_expression", "the expression that fired", _CRON),
    _ours("run_at", "the instant it was set for, in UTC", _DELAY),
    _ours("previous.fire_time", "the instant of the schedule's last beat that ran"),
    _ours("previous.started_at", "when the schedule's last run started"),
    _ours("previous.finished_at", "when the schedule's last run ended"),
    _ours("previous.status", "how it ended: succeeded, failed, timed_out, …"),
    _ours("previous.run_id", "the id of that run"),
    _text("previous.summary", "what that run said it did"),
    _text("previous.error", "why that run failed, if it did"),
    _text("previous.response.*", "one value of that run's JSON response"),
    *_item("work", "work item"),
    *_item("issue", "issue"),
    _text("payload", "the whole body of the call, as JSON", _WEBHOOK),
    _text("payload.*", "one value of the call's JSON body, such as payload.issue.labels.0.name", _WEBHOOK),
    _text("message.text", "what was said", _CHAT),
    _line("message.user", "who said it", _CHAT),
    _line("message.channel", "where it was said", _CHAT),
    _line("message.thread", "the thread it belongs to", _CHAT),
    _line("message.id", "the id of the message", _CHAT),
)

AGENTD_NAMES: tuple[Known, ...] = (
    _line("source_id", "the dedup id of the beat; the item's id if there is a work item"),
    _line("title", "what fired, in words; the title of the work item or call if there is one"),
    _text("body", "the description of the work item or call; empty when the clock fired"),
    _line("url", "the address of the work item or call; empty when the clock fired"),
    _line("labels", "the labels of the work item or call, joined by commas; empty when the clock fired"),
    _line("assignee", "who has the work item, if anybody; empty when the clock fired"),
    _text("metadata", "everything else that is known, as lines of key: value"),
    _text("metadata.*", "one value of it"),
    _ours("workflow_id", "a UUID that stays with the schedule"),
    _line("delivery_id", "the id of the delivery", _WEBHOOK),
    _line("timestamp", "when the call came in", _CALLED),
    _line("github_event", "the kind of event that GitHub sent", _WEBHOOK),
    _line("action", "what happened to the thing the event is about", _WEBHOOK),
    _line("issue_number", "the number of the issue the event is about", _WEBHOOK),
    _line("pr_number", "the number of the pull request the event is about", _WEBHOOK),
    _text("linear_*", "a value that Linear sent", _WEBHOOK),
    _line("event_type", "the kind of agent event, or of answer", _CALLED),
    _line("agent_id", "the agent that the event is about", _CALLED),
    _line("source_workflow_id", "the workflow whose dispatch ended", _CALLED),
    _line("dispatch_id", "the dispatch that ended", _CALLED),
    _line("status", "how the dispatch ended", _CALLED),
    _line("original_source_id", "the dedup id of the dispatch that ended", _CALLED),
    _line("question_id", "the question that was answered", _CALLED),
    _line("category", "the kind of question", _CALLED),
    _text("question", "what was asked", _CALLED),
    _text("answer", "what was answered", _CALLED),
    _line("composite_sub_source_ids", "the dedup ids that came together", _CALLED),
    _text("sub_*", "a value of one of the triggers that came together", _CALLED),
    _work("head_ref", "the branch of the pull request"),
    _work("base_ref", "the branch it is meant for"),
    _work("is_draft", "true for a draft pull request"),
    _work("source_branch", "the branch of the merge request"),
    _work("target_branch", "the branch it is meant for"),
    _work("merge_status", "whether it can be merged"),
    _work("draft", "true for a draft merge request"),
    _work("gitlab_project_id", "the GitLab project"),
    _work("gitlab_iid", "the number of the item in its GitLab project"),
    _work("identifier", "Linear's name for the issue, ENG-123"),
    _work("linear_id", "Linear's id of the issue"),
    _work("state", "the state of the issue"),
    _work("priority", "its priority"),
    _work("team", "the key of its team"),
    _work("team_name", "the name of its team"),
    _work("project", "its project"),
    _work("queue_name", "the queue that the item came from"),
    _work("queue_task_id", "the id of the item in its queue"),
    _work("queue_priority", "the priority of the item in its queue"),
)
"""The words of agentd's triggers, kept so that its workflows run unchanged."""

NAMES: tuple[Known, ...] = OWN_NAMES + AGENTD_NAMES


def lookup(name: str, kind: TriggerKind, *, has_work: bool) -> Known | None:
    """The row of a name on this kind of schedule, None if it never has such a value."""
    return next((row for row in _rows(name) if row.is_provided(kind, has_work=has_work)), None)


def elsewhere(name: str) -> tuple[Known, ...]:
    """Every row of a name, whichever schedules have it."""
    return tuple(_rows(name))


def _rows(name: str) -> Iterator[Known]:
    return (row for row in NAMES if row.matches(name))
