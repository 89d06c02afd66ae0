"""Prompts, checked when they are written: strictly in our files, mildly in those of other tools."""

from herdbeat.config.drafts import TargetSource
from herdbeat.config.entries import ScheduleSource
from herdbeat.config.report import Diagnostics
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import Severity
from herdbeat.located import ConfigNode
from herdbeat.prompts import validate_prompt


def check_prompts(
    target_source: TargetSource, schedule_source: ScheduleSource, kind: TriggerKind, diagnostics: Diagnostics
) -> None:
    """The schedule's prompt, or the one it falls back to."""
    prompt = schedule_source.node.child("prompt")
    if prompt is None or prompt.value is None:
        prompt = target_source.node.child("default_prompt")
    if prompt is not None:
        has_work = _has_work_source(schedule_source.node.child("work_source"))
        check_prompt(prompt, kind, diagnostics, has_work=has_work)


def check_prompt(prompt: ConfigNode, kind: TriggerKind, diagnostics: Diagnostics, *, has_work: bool) -> None:
    if not isinstance(prompt.value, str) or prompt.undefined_variable:
        return
    # In another tool's file unknown braces are text: it would have left them as they are (SEMANTICS 38).
    severity = Severity.WARNING if diagnostics.is_foreign(prompt.location) else Severity.ERROR
    for error in validate_prompt(prompt.value, kind, has_work=has_work):
        diagnostics.add(error, prompt, severity)


def _has_work_source(work_source: ConfigNode | None) -> bool:
    return work_source is not None and work_source.value is not None
