"""The schedules that take webhook calls."""

from collections.abc import Iterator, Sequence

from herdbeat.domain.records import ScheduleRecord
from herdbeat.service.queries.schedule_state import is_enabled
from herdbeat.service.webhooks.intake import HookSchedule
from herdbeat.store.reader import Filter, Reader
from herdbeat.triggers import Webhook
from herdbeat.triggers.variables import workflow_id

_PAGE = 500


def read_hook(reader: Reader, target: str, name: str) -> HookSchedule | None:
    """Return the hook of exactly this schedule; None if there is none, or it takes no calls."""
    found = reader.schedules(Filter(target=target, name=name, limit=1))
    return next((_to_hook(each) for each in found if each.target == target and each.name == name), None)


def find_hook_by_id(hooks: Sequence[HookSchedule], text: str) -> HookSchedule | None:
    """Return the hook that agentd would know by this id: the UUID of a workflow, or its name if only one has it."""
    found = [each for each in hooks if text == workflow_id(each.id_text)]
    named = found or [each for each in hooks if text == each.id_text.partition("/")[2]]
    return named[0] if len(named) == 1 else None


def list_hooks(reader: Reader) -> Iterator[HookSchedule]:
    last = 0
    while page := reader.schedules(Filter(before=last, limit=_PAGE)):
        yield from (hook for each in page if (hook := _to_hook(each)) is not None)
        last = page[-1].id


def _to_hook(record: ScheduleRecord) -> HookSchedule | None:
    trigger, policies = record.plan.trigger, record.plan.policies
    if not isinstance(trigger, Webhook):
        return None
    return HookSchedule(
        id=record.id,
        label=record.label,
        id_text=f"{record.target}/{record.name}",
        auth=trigger.auth,
        enabled=is_enabled(record),
        when=policies.when,
        dedup=policies.dedup,
    )
