"""`doctor` asks each work source what it offers, and says what is missing."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.support.fake_github import REPO, TOKEN, FakeGitHub
from tests.support.work_herd import build_fleet
from tests.support.work_process import github_in_thread

from herdbeat.domain.fleet import Fleet
from herdbeat.service.maintenance.doctor import DoctorFinding, FindingLevel
from herdbeat.service.maintenance.doctor.fleet import check_work
from herdbeat.testing import FakeClock


def find(spec: dict[str, object], **environ: str) -> DoctorFinding:
    fleet = build_fleet("Do it.", 1)
    schedules = tuple(replace(schedule, work_source=spec) for schedule in fleet.schedules)
    changed: Fleet = replace(fleet, schedules=schedules)
    (finding,) = check_work(changed, environ, FakeClock(datetime.now(UTC)))
    return finding


def ask_github(github: FakeGitHub, **environ: str) -> DoctorFinding:
    return find({"type": "github", "repo": REPO, "api_url": github.url}, **environ)


def test_a_folder_that_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    missing = find({"type": "directory", "path": str(tmp_path / "inbox")})
    found = find({"type": "directory", "path": str(tmp_path)})

    assert (missing.level, f"The folder {tmp_path}/inbox does not exist." in missing.text) == (
        FindingLevel.PROBLEM,
        True,
    )
    assert (found.level, found.text) == (FindingLevel.OK, "worker/backlog: 0 items offered")


def test_a_missing_or_refused_token_is_a_problem() -> None:
    with github_in_thread() as github:
        github.add(1, "ready")
        without, wrong, right = (
            ask_github(github),
            ask_github(github, GITHUB_TOKEN="ghp_wrongwrong0000"),
            ask_github(github, GITHUB_TOKEN=TOKEN),
        )

    assert [each.level for each in (without, wrong, right)] == [
        FindingLevel.PROBLEM,
        FindingLevel.PROBLEM,
        FindingLevel.OK,
    ]
    assert right.text == "worker/backlog: 1 item offered"


def test_labels_that_do_not_exist_and_a_token_that_only_reads_are_named() -> None:
    with github_in_thread() as github:
        github.repo_labels = {"ready"}
        github.can_push = False
        finding = ask_github(github, GITHUB_TOKEN=TOKEN)

    assert finding.level is FindingLevel.PROBLEM
    assert 'The label "agent-working" does not exist in acme/app.' in finding.text
    assert "cannot change its issues" in finding.text
