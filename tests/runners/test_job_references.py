"""References to variables in jobs: what a node puts in, and what it says if it cannot."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.runner_jobs import command_spec, make_job

from herdbeat.clock import SystemClock
from herdbeat.config.files import LiveEnvironment
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec, EndpointSpec
from herdbeat.redaction import redact_known
from herdbeat.runners.base import Job
from herdbeat.runners.registry import open_runners, resolve_job
from herdbeat.runners.settings import RunnerSettings


async def run(job: Job, state_dir: Path, variables: Mapping[str, str]) -> Outcome:
    settings = RunnerSettings(state_dir=state_dir, environ={}, variables=variables)
    async with open_runners(settings, SystemClock()) as runners:
        return await runners.run(job)


def echo(*words: str, variables: tuple[str, ...]) -> CommandSpec:
    return replace(command_spec("/bin/sh", "-c", 'printf "%s" "$*" | wc -c', "sh", *words), variables=variables)


async def test_a_run_without_its_variable_is_skipped_and_names_it(tmp_path: Path) -> None:
    outcome = await run(make_job(echo("${API_TOKEN}", variables=("API_TOKEN",))), tmp_path, {})

    assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
    assert outcome.error.startswith("The environment variable API_TOKEN is not set on ")
    assert outcome.error.endswith(
        "Set API_TOKEN in the environment of herdbeat there, or in .env beside its fleet file."
    )


async def test_an_edited_dotenv_counts_from_the_next_run_on(tmp_path: Path) -> None:
    file, job = tmp_path / ".env", make_job(echo("${API_TOKEN}", variables=("API_TOKEN",)))
    variables = LiveEnvironment(str(tmp_path), {})
    file.write_text("API_TOKEN=four\n", encoding="utf-8")
    first = await run(job, tmp_path, variables)

    file.write_text("API_TOKEN=twelve-chars\n", encoding="utf-8")
    second = await run(make_job(job.target.spec), tmp_path, variables)

    assert (first.output.strip(), second.output.strip()) == ("4", "12")


def test_only_the_listed_variables_are_filled_in_and_then_hidden() -> None:
    spec = EndpointSpec(
        url="https://x.example/${A_TOKEN}",
        headers={"Authorization": "Bearer ${A_TOKEN}", "X-Other": "${B_TOKEN} $${A_TOKEN} ${NONE:-default}"},
        body={"deep": ["${A_TOKEN}"]},
        variables=("A_TOKEN", "NONE"),
    )

    job = resolve_job(make_job(spec), {"A_TOKEN": "canary-a-0815", "B_TOKEN": "canary-b-0815"})

    assert job.target.spec == EndpointSpec(
        url="https://x.example/canary-a-0815",
        headers={"Authorization": "Bearer canary-a-0815", "X-Other": "${B_TOKEN} ${A_TOKEN} default"},
        body={"deep": ["canary-a-0815"]},
    )
    assert redact_known("it said canary-a-0815 and canary-b-0815") == "it said *** and canary-b-0815"


def test_a_job_without_references_is_not_touched() -> None:
    job = make_job(AgentSpec(runtime="claude", working_directory=".", default_prompt="${HOME} $${HOME}"), "${HOME}")

    assert resolve_job(job, {"HOME": "/root"}) is job
