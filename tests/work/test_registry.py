"""Work sources opened from what the configuration stores."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.config_folder import ConfigFolder
from tests.support.fake_github import REPO, STRANGER, TOKEN, FakeGitHub
from tests.support.fake_linear import KEY, serve_linear

from herdbeat.domain.schedule import Schedule
from herdbeat.testing import FakeClock
from herdbeat.work.base import ClaimStatus, FailureCause, Sleep, WorkSource, WorkSourceFailed
from herdbeat.work.command import CommandSettings
from herdbeat.work.linear import LinearSettings
from herdbeat.work.registry import SourceContext, open_work_source

AGENTD = """
name: triage
agent: scout
source: { type: %s, owner: acme, repo: app, labels: [bug] }
prompt_template: Fix it.
"""


@pytest.fixture
def context(clock: FakeClock, sleep: Sleep) -> SourceContext:
    environment = {"GITHUB_TOKEN": TOKEN, "LINEAR_API_KEY": KEY, "TRACKER": "hunter2x", "OTHER": "unseen"}
    return SourceContext(clock=clock, sleep=sleep, environment=environment, program_environment={"BASE": "1"})


@pytest.fixture
def folder(tmp_path: Path) -> ConfigFolder:
    return ConfigFolder(tmp_path)


def load_spec(folder: ConfigFolder, work_source: str) -> dict[str, Any]:
    """Return a work source as the configuration stores it."""
    schedule = f"{{ every: 5m, prompt: Do it., work_source: {work_source} }}"
    fleet = folder.fleet(
        f"version: 1\nagents:\n  - {{ name: a, runtime: command, command: [x], schedules: {{ s: {schedule} }} }}"
    )
    return dict(_work_source(fleet.schedules[0]))


def _work_source(schedule: Schedule) -> Any:
    assert schedule.work_source is not None
    return schedule.work_source


async def take_first(source: WorkSource) -> ClaimStatus:
    items = await source.list()
    return (await source.claim(items[0], "m1")).status


async def test_github_as_the_configuration_stores_it(
    folder: ConfigFolder, github: FakeGitHub, context: SourceContext
) -> None:
    github.add(1, "go", "wip")
    issue = github.add(2, "go")
    spec = load_spec(folder, f"{{ type: github, repo: {REPO}, labels: {{ ready: go }} }}")

    source = open_work_source({**spec, "api_url": github.url}, context)
    status = await take_first(source)
    await source.close()

    assert (status, issue.labels) == (ClaimStatus.CLAIMED, ["agent-working"])
    assert source.key == f"github:{github.url}/acme/app"


@pytest.mark.parametrize(("kind", "number"), [("github_issues", "1"), ("github_pull_requests", "2")])
async def test_a_workflow_of_agentd_takes_whatever_matches_and_marks_nothing(
    folder: ConfigFolder, github: FakeGitHub, context: SourceContext, kind: str, number: str
) -> None:
    github.add(1, "bug", by=STRANGER)
    github.add(2, "bug", by=STRANGER, is_pull_request=True)
    github.add(3)
    files = {
        "herdbeat.yaml": "version: 1\nimports: [{ agentd: .agentd/ }]\n",
        ".agentd/agents/scout.yml": "name: scout\n",
        ".agentd/workflows/triage.yml": AGENTD % kind,
    }
    fleet = folder.fleet(files)
    spec = _work_source(fleet.schedules[0])

    source = open_work_source({**spec, "api_url": github.url}, context)
    items = await source.list()
    status = await take_first(source)
    await source.close()

    assert ([item.id for item in items], status) == ([number], ClaimStatus.CLAIMED)
    assert not source.claims_remotely
    assert {entry.method for entry in github.log} == {"GET"}


async def test_a_directory_as_the_configuration_stores_it(folder: ConfigFolder, context: SourceContext) -> None:
    folder.write({"inbox/a.md": "Do it."})

    source = open_work_source(load_spec(folder, "{ type: directory, path: ./inbox }"), context)

    assert await take_first(source) is ClaimStatus.CLAIMED


async def test_linear(clock: FakeClock, context: SourceContext) -> None:
    async with serve_linear(clock) as linear:
        linear.add("ENG-1", "ready")
        source = open_work_source({"type": "linear", "api_url": linear.url, "team": "ENG"}, context)
        status = await take_first(source)
        await source.close()

    assert status is ClaimStatus.CLAIMED


async def test_a_command_gets_the_variables_that_it_names(context: SourceContext) -> None:
    code = "import json, os; print(json.dumps({'id': 1, 'body': ' '.join(sorted(os.environ))}))"
    spec = {"type": "command", "list": [sys.executable, "-I", "-S", "-c", code], "env": ["TRACKER"], "timeout": "2m"}

    items = await open_work_source(spec, context).list()

    assert set(items[0].body.split()) - {"LC_CTYPE"} == {"BASE", "TRACKER"}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"type": "jira"}, FailureCause.CONFIG),
        ({}, FailureCause.CONFIG),
        ({"type": "directory", "path": "inbox"}, FailureCause.CONFIG),
        ({"type": "github"}, FailureCause.CONFIG),
        ({"type": "github", "repo": "a/b", "auth": {"token_env": "MISSING"}}, FailureCause.AUTHENTICATION),
        ({"type": "linear", "auth": {"token_env": "MISSING"}}, FailureCause.AUTHENTICATION),
        ({"type": "command"}, FailureCause.CONFIG),
    ],
)
def test_what_cannot_work_is_an_error_with_a_fix(
    spec: dict[str, Any], cause: FailureCause, context: SourceContext
) -> None:
    with pytest.raises(WorkSourceFailed) as caught:
        open_work_source(spec, context)

    assert (caught.value.cause, caught.value.permanent) == (cause, True)
    assert caught.value.hint


def test_no_value_shows_its_secrets_when_it_is_printed(context: SourceContext) -> None:
    settings = LinearSettings(api_key=KEY)
    command = CommandSettings(list_argv=("x",), environment={"TRACKER": "hunter2x"}, secrets=("hunter2x",))

    shown = f"{context} {settings} {command}"

    assert not [secret for secret in (TOKEN, KEY, "hunter2x") if secret in shown]
