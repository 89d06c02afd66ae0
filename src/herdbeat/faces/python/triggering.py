"""`on_trigger` as a runner: what a callback is told about a run."""

import inspect
from collections.abc import Callable

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.schedule import Schedule
from herdbeat.faces.python.documented import SchedulerTriggerCallback, TriggerInfo, TriggerMetadata
from herdbeat.runners.base import Job
from herdbeat.runners.functions import Function, is_async

ScheduleLookup = Callable[[str], Schedule | None]


def callback_runner(on_trigger: SchedulerTriggerCallback, schedule_lookup: ScheduleLookup) -> Function:
    """The function that is told of every run. A plain one gets a thread, so that it may take its time."""
    if is_async(on_trigger):

        async def call_async(job: Job) -> object:
            found = on_trigger(build_trigger_info(job, schedule_lookup))
            return await found if inspect.isawaitable(found) else found

        return Function(call=call_async, is_async=True, takes_run=True)
    return Function(
        call=lambda job: on_trigger(build_trigger_info(job, schedule_lookup)), is_async=False, takes_run=True
    )


def build_trigger_info(job: Job, schedule_lookup: ScheduleLookup) -> TriggerInfo:
    """The schedule as it was handed over; one that was edited away meanwhile is told as it was planned."""
    label, plan, target = job.claim.label, job.claim.plan, job.target
    name = label.rpartition("/")[2]
    planned = Schedule(
        target=job.target.name, name=name, trigger=plan.trigger, policies=plan.policies, prompt=job.prompt
    )
    return TriggerInfo(
        agent=target,
        schedule_name=name,
        schedule=schedule_lookup(label) or planned,
        job_id=format_short_id(job.claim.run_id),
        prompt=job.prompt,
        due_at=job.claim.due_at,
        attempt=job.claim.attempt,
        metadata=TriggerMetadata(trigger_type=plan.trigger.kind, schedule=name),
    )
