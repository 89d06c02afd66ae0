"""What a person gives with one run by hand: checked before its beat is written, so that no run is the first to find it.

A prompt for one run is a template like that of the schedule, with the same variables.
"""

import json

from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import UsageError
from herdbeat.prompts import validate_prompt
from herdbeat.service.commands.base import TriggerSchedule
from herdbeat.store.base import ScheduleSnapshot, Transaction

MAX_PROMPT_BYTES = 100_000
"""The longest argument of a program on Linux is a little longer, and some agents get their prompt as one."""

MAX_INPUT_BYTES = 1_048_576


def build_request(tx: Transaction, command: TriggerSchedule) -> ManualRequest:
    """Return what is stored with the beat. Raises UsageError."""
    if command.prompt or command.input:
        snapshot = tx.schedules([command.schedule])[command.schedule]
        _check_prompt(tx, snapshot, command.prompt)
        _check_input(snapshot, command.input)
    return ManualRequest(prompt=command.prompt, input=command.input, reason=command.reason)


def _check_prompt(tx: Transaction, snapshot: ScheduleSnapshot, prompt: str) -> None:
    if len(prompt.encode(errors="surrogatepass")) > MAX_PROMPT_BYTES:
        raise UsageError("The prompt is too long.", hint=f"Use at most {MAX_PROMPT_BYTES:,} bytes.")
    if not prompt or snapshot.unreadable is not None:
        return
    for error in validate_prompt(prompt, snapshot.plan.trigger.kind, has_work=_has_work(tx, snapshot)):
        raise UsageError(f"The prompt: {error.message}", hint=error.hint)


def _has_work(tx: Transaction, snapshot: ScheduleSnapshot) -> bool:
    rows = tx.schedule_list_by_target([snapshot.target_id]).values()
    brief = next((row.brief for number, row in rows if number == snapshot.id), "{}")
    return json.loads(brief).get("work_source") is not None


def _check_input(snapshot: ScheduleSnapshot, text: str) -> None:
    if not text:
        return
    if snapshot.unreadable is not None or snapshot.plan.trigger.kind is not TriggerKind.WEBHOOK:
        hint = "Give it a prompt instead, or use a schedule with type: webhook."
        raise UsageError(f"{snapshot.label} takes no input: it is not started by webhooks.", hint=hint)
    if len(text.encode(errors="surrogatepass")) > MAX_INPUT_BYTES:
        raise UsageError("The input is too long.", hint=f"Use at most {MAX_INPUT_BYTES:,} bytes.")
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("The input is not JSON.", hint='Write for example: {"action": "published"}') from error
