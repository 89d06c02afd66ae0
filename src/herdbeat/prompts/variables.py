"""The table of prompt variables: their meaning, the schedules that have them, and whether their values are trusted.

The names that a prompt uses are validated against it. Rendering and the page `docs/reference/prompts.md` use it too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any

from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import TemplateError, UnknownTemplateName, truncate_for_message
from herdbeat.prompts.template import ESCAPE_HINT, scan_template


class ValueTrust(StrEnum):
    """Where a value comes from, which decides how it is inserted into a prompt."""

    TRUSTED = "ours"  # from herdbeat or its operator: inserted unchanged
    UNTRUSTED_LINE = "line"  # from outside, one line: line breaks and control characters become spaces
    UNTRUSTED_TEXT = "text"  # from outside, of any length: tagged as data if it is more than a short line


ALL_KINDS = frozenset(TriggerKind)
_CRON = frozenset({TriggerKind.CRON})
_DELAY = frozenset({TriggerKind.DELAY})
_WEBHOOK = frozenset({TriggerKind.WEBHOOK})
_CHAT = frozenset({TriggerKind.CHAT})
_CALL_KINDS = frozenset({TriggerKind.WEBHOOK, TriggerKind.MANUAL})


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, or a family of them: `payload.*` is every name that begins with `payload.`."""

    name: str
    meaning: str
    kinds: frozenset[TriggerKind] = ALL_KINDS
    needs_work: bool = False
    trust: ValueTrust = ValueTrust.TRUSTED

    def matches(self, name: str) -> bool:
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1]) and len(name) >= len(self.name)
        return name == self.name

    def is_provided(self, kind: TriggerKind, *, has_work: bool) -> bool:
        return kind in self.kinds and (has_work or not self.needs_work)


_trusted = Variable
_untrusted_line = partial(Variable, trust=ValueTrust.UNTRUSTED_LINE)
_untrusted_text = partial(Variable, trust=ValueTrust.UNTRUSTED_TEXT)
_work_line = partial(_untrusted_line, needs_work=True)
_work_text = partial(_untrusted_text, needs_work=True)


def _work_item_family(family: str, noun: str) -> Iterator[Variable]:
    """Yield the fields of a work item, once as `work.*` and once as `issue.*`, which is herdctl's name."""
    yield _work_line(f"{family}.id", f"the id of the {noun}")
    if family == "issue":
        yield _work_line("issue.number", "the number of the issue")
    yield _work_line(f"{family}.title", f"the title of the {noun}")
    yield _work_text(f"{family}.body", f"the description of the {noun}")
    yield _work_line(f"{family}.url", f"the URL of the {noun}")
    yield _work_line(f"{family}.labels", "its labels, separated by commas")
    yield _work_line(f"{family}.assignee", "its assignee, if any")
    yield _work_line(f"{family}.priority", "critical, high, medium or low")
    yield _work_text(f"{family}.metadata.*", f"further data from the source about the {noun}")


OWN_VARIABLES: tuple[Variable, ...] = (
    _trusted("date", "the day of the beat in the schedule's zone, 2026-04-01"),
    _trusted("time", "the time of the beat in the schedule's zone, 09:00"),
    _trusted("fire_time", "the instant of the beat in UTC, 2026-04-01T09:00:00Z"),
    _trusted("agent", "the name of the target"),
    _trusted("schedule", "the name of the schedule"),
    _trusted("cron_expression", "the expression that fired", _CRON),
    _trusted("run_at", "the scheduled time, in UTC", _DELAY),
    _trusted("previous.fire_time", "the instant of the schedule's last beat that ran"),
    _trusted("previous.started_at", "when the schedule's last run started"),
    _trusted("previous.finished_at", "when the schedule's last run ended"),
    _trusted("previous.status", "how it ended: succeeded, failed, timed_out, …"),
    _trusted("previous.run_id", "the id of that run"),
    _untrusted_text("previous.summary", "the summary of that run"),
    _untrusted_text("previous.error", "the error of that run, if it failed"),
    _untrusted_text("previous.response.*", "a value from that run's JSON response"),
    *_work_item_family("work", "work item"),
    *_work_item_family("issue", "issue"),
    _untrusted_text("payload", "the whole body of the call, as JSON", _WEBHOOK),
    _untrusted_text("payload.*", "a value from the call's JSON body, such as payload.issue.labels.0.name", _WEBHOOK),
    _untrusted_text("message.text", "the text of the message", _CHAT),
    _untrusted_line("message.user", "the author of the message", _CHAT),
    _untrusted_line("message.channel", "the channel of the message", _CHAT),
    _untrusted_line("message.thread", "the thread of the message", _CHAT),
    _untrusted_line("message.id", "the id of the message", _CHAT),
)

AGENTD_VARIABLES: tuple[Variable, ...] = (
    _untrusted_line("source_id", "the dedup id of the beat; the item's id if there is a work item"),
    _untrusted_line("title", "a description of the trigger, or the title of the work item or call if there is one"),
    _untrusted_text("body", "the description of the work item or call; empty for time triggers"),
    _untrusted_line("url", "the URL of the work item or call; empty for time triggers"),
    _untrusted_line("labels", "the labels of the work item or call, separated by commas; empty for time triggers"),
    _untrusted_line("assignee", "the assignee of the work item, if any; empty for time triggers"),
    _untrusted_text("metadata", "all other values, as lines of key: value"),
    _untrusted_text("metadata.*", "one of these values"),
    _trusted("workflow_id", "a UUID that never changes for the schedule"),
    _untrusted_line("delivery_id", "the id of the delivery", _WEBHOOK),
    _untrusted_line("timestamp", "when the call was received", _CALL_KINDS),
    _untrusted_line("github_event", "the type of the GitHub event", _WEBHOOK),
    _untrusted_line("action", "the action of the event", _WEBHOOK),
    _untrusted_line("issue_number", "the number of the issue in the event", _WEBHOOK),
    _untrusted_line("pr_number", "the number of the pull request in the event", _WEBHOOK),
    _untrusted_text("linear_*", "a value from Linear", _WEBHOOK),
    _untrusted_line("event_type", "the kind of agent event, or of answer", _CALL_KINDS),
    _untrusted_line("agent_id", "the agent in the event", _CALL_KINDS),
    _untrusted_line("source_workflow_id", "the workflow whose dispatch ended", _CALL_KINDS),
    _untrusted_line("dispatch_id", "the dispatch that ended", _CALL_KINDS),
    _untrusted_line("status", "how the dispatch ended", _CALL_KINDS),
    _untrusted_line("original_source_id", "the dedup id of the dispatch that ended", _CALL_KINDS),
    _untrusted_line("question_id", "the question that was answered", _CALL_KINDS),
    _untrusted_line("category", "the kind of question", _CALL_KINDS),
    _untrusted_text("question", "the text of the question", _CALL_KINDS),
    _untrusted_text("answer", "the text of the answer", _CALL_KINDS),
    _untrusted_line("composite_sub_source_ids", "the dedup ids of the combined triggers", _CALL_KINDS),
    _untrusted_text("sub_*", "a value of one of the combined triggers", _CALL_KINDS),
    _work_line("head_ref", "the branch of the pull request"),
    _work_line("base_ref", "the target branch"),
    _work_line("is_draft", "true for a draft pull request"),
    _work_line("source_branch", "the branch of the merge request"),
    _work_line("target_branch", "the target branch"),
    _work_line("merge_status", "whether it can be merged"),
    _work_line("draft", "true for a draft merge request"),
    _work_line("gitlab_project_id", "the GitLab project"),
    _work_line("gitlab_iid", "the number of the item in its GitLab project"),
    _work_line("identifier", "Linear's name for the issue, ENG-123"),
    _work_line("linear_id", "Linear's id of the issue"),
    _work_line("state", "the state of the issue"),
    _work_line("priority", "its priority"),
    _work_line("team", "the key of its team"),
    _work_line("team_name", "the name of its team"),
    _work_line("project", "its project"),
    _work_line("queue_name", "the queue that the item came from"),
    _work_line("queue_task_id", "the id of the item in its queue"),
    _work_line("queue_priority", "the priority of the item in its queue"),
)
"""The variables of agentd's triggers, so that its workflows run unchanged."""

VARIABLES: tuple[Variable, ...] = OWN_VARIABLES + AGENTD_VARIABLES


def find_variable(name: str, kind: TriggerKind, *, has_work: bool) -> Variable | None:
    """Return the variable of a name on this kind of schedule; None if it has no such variable."""
    return next((variable for variable in _iter_matching(name) if variable.is_provided(kind, has_work=has_work)), None)


def find_variables(name: str) -> tuple[Variable, ...]:
    """Return every variable of a name, on any kind of schedule."""
    return tuple(_iter_matching(name))


def _iter_matching(name: str) -> Iterator[Variable]:
    return (variable for variable in VARIABLES if variable.matches(name))


# Prompts are validated when the configuration is loaded, so that no run is the first to find an error.


def validate_prompt(text: str, kind: TriggerKind, *, has_work: bool) -> list[TemplateError]:
    """Return every error in a prompt for this kind of schedule, in the order of the text.

    Names are checked against the variables that the trigger provides: `{{payload.x}}` on a cron schedule
    would otherwise be empty in every prompt.
    """
    template, errors = scan_template(text)
    for placeholder in template.placeholders:
        name, offset, width = placeholder.name, placeholder.offset, placeholder.width
        if find_variable(name, kind, has_work=has_work) is None:
            message, hint = _describe_unknown_name(name, kind, has_work=has_work)
            errors.append(UnknownTemplateName(message, name=name, offset=offset, width=width, hint=hint))
    return sorted(errors, key=lambda error: error.offset)


def _describe_unknown_name(name: str, kind: TriggerKind, *, has_work: bool) -> tuple[str, str]:
    """Return message and hint: other schedules have the name, a similar name exists, or it is unknown."""
    written = f"{{{{{truncate_for_message(name)}}}}}"
    if variables := find_variables(name):
        hint = f"This is {_with_article(kind)} schedule. {ESCAPE_HINT}"
        return f"{written} is only available on {_describe_owners(variables)}.", hint
    provided = [variable for variable in VARIABLES if variable.is_provided(kind, has_work=has_work)]
    if guess := _closest_name(name, provided):
        return f"Unknown variable {written}; did you mean {{{{{guess}}}}}?", ESCAPE_HINT
    has = f"{_with_article(kind).capitalize()} schedule has {_summarize_names(provided)}."
    return f"Unknown variable {written}.", f"{has} {ESCAPE_HINT}"


def _describe_owners(variables: tuple[Variable, ...]) -> str:
    if all(variable.needs_work for variable in variables):
        return "schedules with a work_source"
    kinds = {kind for variable in variables if variable.kinds != ALL_KINDS for kind in variable.kinds}
    return f"{' and '.join(kind for kind in TriggerKind if kind in kinds)} schedules"


def _closest_name(name: str, provided: list[Variable]) -> str | None:
    """Return the most similar variable of this schedule. In a family such as payload.*, the rest of the name stays."""
    first, dot, rest = name.partition(".")
    families = [variable.name[:-2] for variable in provided if variable.name.endswith(".*")]
    if dot and (near := get_close_matches(first.lower(), families, n=1, cutoff=0.7)):
        return f"{near[0]}.{rest}"
    whole = [variable.name for variable in provided if not variable.name.endswith("*")]
    near = get_close_matches(name.lower(), whole, n=1, cutoff=0.7)
    return near[0] if near else None


def _summarize_names(provided: list[Variable]) -> str:
    """Return herdbeat's own variables as a list, each family as one entry."""
    names = (variable.name for variable in OWN_VARIABLES if variable in provided)
    return ", ".join(dict.fromkeys(f"{name.partition('.')[0]}.*" if "." in name else name for name in names))


def _with_article(kind: TriggerKind) -> str:
    return f"an {kind}" if kind is TriggerKind.INTERVAL else f"a {kind}"


_DEFAULT_TITLE = "Webhook payload"


def build_event_values(data: Mapping[str, object]) -> dict[str, object]:
    """Return `payload` and the names that agentd has for calls; of a chat, its `message`.

    What the call does not have is an empty text.
    """
    if isinstance(data.get("message"), Mapping):
        return {"message": data["message"]}
    payload = data.get("payload")
    body = payload if isinstance(payload, Mapping) else {}
    subject = _first_mapping(body, "issue", "pull_request")
    return {
        "payload": payload,
        "delivery_id": data.get("delivery_id", ""),
        "timestamp": data.get("received_at", ""),
        "github_event": data.get("event", ""),
        "event_type": data.get("event", ""),
        "action": body.get("action", ""),
        "issue_number": _first_mapping(body, "issue").get("number", ""),
        "pr_number": _first_mapping(body, "pull_request").get("number", body.get("number", "")),
        "title": subject.get("title") or _first_text(body, "title", "subject", "name") or _DEFAULT_TITLE,
        "body": subject.get("body") or _first_text(body, "body", "text", "description"),
        "url": subject.get("html_url") or _first_text(body, "url", "html_url"),
        "labels": ", ".join(_label_names(subject)),
    }


def _first_mapping(body: Mapping[Any, Any], *names: str) -> Mapping[Any, Any]:
    return next((body[name] for name in names if isinstance(body.get(name), Mapping)), {})


def _first_text(body: Mapping[Any, Any], *names: str) -> str:
    return next((body[name] for name in names if isinstance(body.get(name), str)), "")


def _label_names(subject: Mapping[Any, Any]) -> list[str]:
    labels = subject.get("labels")
    found = [each.get("name") for each in labels if isinstance(each, Mapping)] if isinstance(labels, list) else []
    return [each for each in found if isinstance(each, str)]
