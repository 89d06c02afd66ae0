"""agentd's GitHub triggers, at work: an interval with a source that marks nothing, each item taken once."""

import asyncio
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.fake_github import TOKEN
from tests.support.work_process import github_in_thread

from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.config.loader import load_fleet
from herdbeat.domain.target import CommandSpec
from herdbeat.events import Event, RunFinished

AGENT = "name: triage\nworking_dir: .\n"
WORKFLOW = """\
name: bugs
agent: triage
source: {{ type: {kind}, owner: acme, repo: app, labels: [bug] }}
poll_interval: 1
prompt_template: "Fix {{{{title}}}} ({{{{source_id}}}}, {{{{labels}}}})"
"""


@pytest.mark.parametrize("kind", ["github_issues", "github_pull_requests"])
async def test_a_workflow_of_github_takes_every_match_once_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    for name, text in (("agents/triage.yml", AGENT), ("workflows/bugs.yml", WORKFLOW.format(kind=kind))):
        path = tmp_path / ".agentd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    fleet = load_fleet(tmp_path / ".agentd", environ=os.environ, system_zone=ZoneInfo("UTC"))
    recorder = CommandSpec(command=("sh", "-c", "cat >> prompts; echo >> prompts"), working_directory=str(tmp_path))
    ready: list[RunningFleet] = []
    ended: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunFinished):
            ended.append(event.error or event.status)
            if len(ended) == 3:
                ready[0].node.stop(timedelta(seconds=5))

    with github_in_thread() as github:
        is_pull_request = kind == "github_pull_requests"
        github.add(1, "bug", title="the login", is_pull_request=is_pull_request)
        github.add(2, "bug", title="the logout", is_pull_request=is_pull_request)
        github.add(3, title="no bug", is_pull_request=is_pull_request)
        github.add(4, "bug", title="of the other kind", is_pull_request=not is_pull_request)
        changed = replace(
            fleet,
            targets=tuple(replace(target, spec=recorder) for target in fleet.targets),
            schedules=tuple(
                replace(schedule, work_source={**(schedule.work_source or {}), "api_url": github.url})
                for schedule in fleet.schedules
            ),
        )
        async with running_fleet(changed, environ={**os.environ, "GITHUB_TOKEN": TOKEN}, listener=listen) as running:
            ready.append(running)
            async with asyncio.timeout(60):
                await running.wait_stopped()
        changes = [entry for entry in github.log if entry.method not in ("GET", "POST") or "/graphql" not in entry.path]

    assert ended == ["succeeded", "succeeded", "no_work"]
    prompts = (tmp_path / "prompts").read_text(encoding="utf-8").splitlines()
    assert prompts == ["Fix the login (1, bug)", "Fix the logout (2, bug)"]
    assert {entry.method for entry in changes} == {"GET"}
