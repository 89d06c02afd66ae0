"""The JSON of remote runs: the claim that a node follows, the job that `herdbeat exec` runs, and its outcome."""

import json
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Claim, Outcome
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import SPEC_TYPES, AgentSpec, CommandSpec, Target
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.runners.base import Job
from herdbeat.triggers import load_trigger

_MICROSECOND = timedelta(microseconds=1)


class RemoteWork(NamedTuple):
    """A job on its way to an engine: how long it may take, the folder its paths count from, and its lease there."""

    job: Job
    timeout: timedelta
    folder: str
    lease: timedelta


def dump_claim(claim: Claim) -> str:
    return json.dumps(_claim_to_data(claim))


def load_claim(text: str) -> Claim:
    return _claim_from_data(json.loads(text))


def _claim_to_data(claim: Claim) -> dict[str, object]:
    return {**claim._asdict(), "due_at": to_json(claim.due_at), "plan": to_json(claim.plan)}


def _claim_from_data(data: dict[str, object]) -> Claim:
    due_at, plan = (
        from_json(datetime, data["due_at"], load_trigger),
        from_json(ScheduleSpec, data["plan"], load_trigger),
    )
    return Claim(**{**data, "due_at": due_at, "plan": plan, "source": Source(str(data["source"]))})  # type: ignore[arg-type]


def dump_work(work: RemoteWork) -> str:
    """Return the job for `herdbeat exec`. It has the prompt, so it goes to the process that takes the run, only."""
    job, target = work.job, work.job.target
    return json.dumps(
        {
            "claim": _claim_to_data(job.claim),
            "target": {"name": target.name, "kind": target.kind, "spec": to_json(target.spec)},
            "budget": None if target.budget is None else to_json(target.budget),
            "prompt": job.prompt,
            "prompt_references": list(job.prompt_references),
            "run_spec": to_json(job.run_spec),
            "fence": job.fence,
            "timeout": work.timeout // _MICROSECOND,
            "lease": work.lease // _MICROSECOND,
            "folder": work.folder,
        }
    )


def load_work(text: str, now: datetime) -> RemoteWork:
    """Return the job with its deadline counted from `now`."""
    data = json.loads(text)
    timeout = timedelta(microseconds=data["timeout"])
    job = Job(
        claim=_claim_from_data(data["claim"]),
        target=_load_target(data),
        prompt=data["prompt"],
        prompt_references=tuple(data.get("prompt_references", ())),
        deadline=now + timeout,
        fence=data["fence"],
        run_spec=from_json(RunSpec, data["run_spec"], load_trigger),
    )
    return RemoteWork(job, timeout, data["folder"], timedelta(microseconds=data["lease"]))


def load_lease(text: str) -> timedelta:
    return timedelta(microseconds=json.loads(text)["lease"])


def load_spec(text: str) -> AgentSpec | CommandSpec:
    """Return the spec of the target of a job."""
    spec = _load_target(json.loads(text)).spec
    assert isinstance(spec, AgentSpec | CommandSpec)
    return spec


def _load_target(data: dict[str, object]) -> Target:
    target = data["target"]
    assert isinstance(target, dict)
    spec = from_json(SPEC_TYPES[target["kind"]], target["spec"], load_trigger)
    budget = None if data["budget"] is None else from_json(Budget, data["budget"], load_trigger)
    return Target(name=target["name"], spec=spec, budget=budget)


def dump_outcome(outcome: Outcome) -> str:
    return json.dumps(to_json(outcome))


def load_outcome(text: str) -> Outcome:
    """Raises ValueError if the text is no outcome."""
    try:
        return from_json(Outcome, json.loads(text), load_trigger)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no outcome: {error}") from error
