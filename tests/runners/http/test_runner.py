"""Endpoints among the other kinds of target."""

import subprocess
import sys
from dataclasses import replace

from tests.support.http_endpoints import respond, serve_endpoint
from tests.support.runner_jobs import NOON, make_job

from herdbeat.domain.run import RunStatus
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


async def test_the_registry_runs_endpoints(settings: RunnerSettings) -> None:
    settings = replace(settings, egress_allow=("127.0.0.1",))
    async with serve_endpoint(respond('{"up": true}')) as endpoint, open_runners(settings, FakeClock(NOON)) as runners:
        outcomes = [await runners.run(make_job(endpoint.get())) for _ in range(2)]
        await runners.wait_stopped(1)

    assert [each.status for each in outcomes] == [RunStatus.SUCCEEDED] * 2
    assert outcomes[0].response == {"up": True}


def test_a_fleet_without_endpoints_does_not_import_an_http_library() -> None:
    program = (
        "import sys, herdbeat.bootstrap.fleet; print([name for name in sys.modules if name in ('aiohttp', 'yarl')])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[]\n"
