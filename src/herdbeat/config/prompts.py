"""Prompts, checked when they are written: strictly in our files, mildly in those of other tools."""

from herdbeat.config.drafts import Draft
from herdbeat.config.entries import Entry
from herdbeat.config.report import Report
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import Severity
from herdbeat.located import Located
from herdbeat.prompts import check


def check_prompts(draft: Draft, entry: Entry, kind: TriggerKind, report: Report) -> None:
    """The schedule's prompt, or the one it falls back to."""
    prompt = entry.node.child("prompt")
    if prompt is None or prompt.value is None:
        prompt = draft.node.child("default_prompt")
    if prompt is not None:
        has_work = _has_work(entry.node.child("work_source"))
        check_prompt(prompt, kind, report, has_work=has_work)


def check_prompt(prompt: Located, kind: TriggerKind, report: Report, *, has_work: bool) -> None:
    if not isinstance(prompt.value, str) or prompt.undefined:
        return
    # In another tool's file unknown braces are text: it would have left them as they are (SEMANTICS 38).
    severity = Severity.WARNING if report.is_foreign(prompt.place) else Severity.ERROR
    for error in check(prompt.value, kind, has_work=has_work):
        report.misfit(error, prompt, severity)


def _has_work(work_source: Located | None) -> bool:
    return work_source is not None and work_source.value is not None
