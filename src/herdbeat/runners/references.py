"""Put the values of variables into a job, right before it runs. From then on no log and no record shows them."""

import platform
from collections.abc import Mapping
from dataclasses import replace

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.codec import to_json
from herdbeat.domain.references import MissingVariable, resolve_references, resolve_spec
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.redaction import find_secrets, register_secrets, register_variables
from herdbeat.runners.base import Job


def resolve_job(job: Job, environ: Mapping[str, str]) -> Job:
    """Return the job with the values that this machine has for its references. Raises MissingVariable.

    A job without any, as most are, comes back as it is.
    """
    target, run_spec = job.target, job.run_spec
    if not (target.spec.variables or run_spec.variables or job.prompt_references):
        return job
    names = {*target.spec.variables, *run_spec.variables, *job.prompt_references}
    register_variables(names, environ)
    spec = resolve_spec(target.spec, target.spec.variables, environ)
    register_secrets(find_secrets(to_json(spec)))
    return replace(
        job,
        target=replace(target, spec=spec),
        run_spec=resolve_spec(run_spec, run_spec.variables, environ),
        prompt=resolve_references(job.prompt, job.prompt_references, environ),
        prompt_references=(),
    )


def describe_missing(error: MissingVariable) -> Outcome:
    """Return the outcome of a run that was not tried, because this machine lacks a variable."""
    text = f"The environment variable {error.name} is not set on {platform.node()}. {error.hint}"
    return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.CONFIG_ERROR, error=text)
