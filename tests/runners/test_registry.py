"""Every kind of target has its runner, or a message that says why not."""

import pytest
from tests.support.runner_jobs import make_job

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import AgentSpec, EndpointSpec, TargetKind, TargetSpec
from herdbeat.runners.registry import RunnerRegistry


def agent(runtime: str = "command", command: tuple[str, ...] = ("cat",), **more: object) -> AgentSpec:
    docker = more.get("docker")
    assert docker is None or isinstance(docker, dict)
    return AgentSpec(runtime=runtime, working_directory="/", command=command, docker=docker)


@pytest.mark.parametrize("spec", [agent(), agent(docker={"enabled": False})])
async def test_an_agent_that_is_a_command_is_run(runners: RunnerRegistry, spec: AgentSpec) -> None:
    outcome = await runners.run(make_job(spec, prompt="Look around."))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "Look around.")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            agent("claud", ()),
            'There is no runtime "claud". Correct `runtime`.',
        ),
    ],
)
async def test_an_agent_that_cannot_be_run_fails_with_the_reason(
    runners: RunnerRegistry, spec: TargetSpec, error: str
) -> None:
    outcome = await runners.run(make_job(spec))

    assert (outcome.status, outcome.error) == (RunStatus.FAILED, error)


async def test_an_agent_that_an_older_version_stored_with_docker_is_not_run_without(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(agent(docker={"enabled": True})))

    assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
    assert outcome.error == 'The agent "scribe" needs Docker and was stored by an older version. Run herdbeat apply.'


async def test_what_endpoints_need_is_loaded_before_their_first_run(runners: RunnerRegistry) -> None:
    job = make_job(EndpointSpec(url="http://127.0.0.1/"))
    loading = runners.load(job)
    assert loading is not None
    await loading

    assert runners.load(job) is None
    assert runners.load(make_job(agent())) is None


async def test_a_fleet_with_endpoints_loads_what_they_need_when_it_starts(runners: RunnerRegistry) -> None:
    await runners.preload({TargetKind.COMMAND})
    loading = runners.load(make_job(EndpointSpec(url="http://127.0.0.1/")))
    assert loading is not None
    await loading

    await runners.preload({TargetKind.ENDPOINT})

    assert runners.load(make_job(EndpointSpec(url="http://127.0.0.1/"))) is None


async def test_leftovers_are_found_by_their_run_ids(runners: RunnerRegistry) -> None:
    assert await runners.end_leftovers(frozenset({7})) == 0
