"""What became of a beat by hand, as a TriggerResult."""

from collections.abc import Mapping
from typing import Any

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.faces.python.documented import TriggerResult
from herdbeat.service.questions import find_latest_attempt
from herdbeat.store.reader import Reader


def trigger_result_from_answer(answer: Mapping[str, Any]) -> TriggerResult | None:
    """The result, if nothing is going to start now: it was refused, or it waits for its turn and has no job yet."""
    if not answer["success"]:
        return TriggerResult(success=False, skipped=True, skip_reason=SkipReason(answer["skip_reason"]))
    return TriggerResult(success=True) if answer["waits_for"] else None


def trigger_result_from_ledger(reader: Reader, beat: str, *, require_finished: bool = False) -> TriggerResult | None:
    """The result, once its run has started, or with `is_over` has ended; None until then."""
    run = find_latest_attempt(reader, beat)
    if run is None:
        return _result_from_skip(reader, beat)
    return (
        None
        if require_finished and run.status is RunStatus.RUNNING
        else _result_from_run(run, require_finished=require_finished)
    )


def _result_from_run(run: RunRecord, *, require_finished: bool) -> TriggerResult:
    if not require_finished or run.status is RunStatus.SUCCEEDED:
        return TriggerResult(success=True, job_id=format_short_id(run.id))
    return TriggerResult(success=False, job_id=format_short_id(run.id), error=run.error or f"It ended as {run.status}.")


def _result_from_skip(reader: Reader, beat: str) -> TriggerResult | None:
    """By a budget, or by its hours: gates that are only looked at when it would start."""
    number = parse_short_id(beat)
    found = None if number is None else reader.beat(number)
    if found is None or found.outcome is not BeatOutcome.SKIPPED:
        return None
    return TriggerResult(success=False, skipped=True, skip_reason=SkipReason(found.reason))
