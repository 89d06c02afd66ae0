"""GitHub at its worst, through real nodes: races for a label, limits, server errors, shifting pages.

The oracle reads what the server has seen and what the worker's program wrote.
"""

from datetime import timedelta
from pathlib import Path

from tests.support.fake_github import OWNER, REPO, FakeGitHub
from tests.support.fault_fleet import wait_until
from tests.support.work_process import WorkProcess, check_server, github_in_thread, wait_until_closed

ISSUES = 7
LIMIT = {"message": "You have exceeded a secondary rate limit."}
OTHER_BOT_TOKEN = "ghp_otherbot00000000"


def source_of(github: FakeGitHub, more: str = "") -> str:
    return f"{{ type: github, repo: {REPO}, api_url: '{github.url}'{more} }}"


def fail_everywhere(github: FakeGitHub) -> None:
    """Limits, errors and lost answers in every verb, each once; some of the requests are executed all the same."""
    github.fail("GET", "/issues?", 503)
    github.fail("GET", "/issues?", 429, headers={"Retry-After": "1"}, body=LIMIT)
    github.fail("GET", "/issues?", 403, headers={"Retry-After": "1"}, body=LIMIT)
    github.fail("GET", "/timeline", 502, count=2)
    github.fail("DELETE", "/labels/ready", 500, executes=True)
    github.fail("DELETE", "/labels/ready", 403, headers={"Retry-After": "1"}, body=LIMIT)
    github.fail("POST", "/comments", 0, executes=True)
    github.fail("POST", "/comments", 429, headers={"Retry-After": "1"}, body=LIMIT)
    github.fail("POST", "/labels", 502)
    github.fail("PATCH", "/issues/", 500, executes=True)
    github.fail("PATCH", "/issues/", 503, count=5)
    github.fail("DELETE", "/labels/agent-working", 0)


def test_limits_errors_and_shifting_pages_lose_double_and_block_no_issue(tmp_path: Path) -> None:
    with github_in_thread() as github, WorkProcess.create(tmp_path, source_of(github), max_concurrent=2) as work:
        for number in range(1, ISSUES + 2):
            github.add(number, "ready")
        fail_everywhere(github)
        # A person takes the first issue away while the second page is asked for: the fourth slips to the first page.
        github.interrupt("GET", "page=2", lambda: github.unlabel(1, "ready", OWNER))
        work.start()
        wait_until(lambda: not github.faults, lambda: f"{github.faults} {work.log()}")
        github.clock.advance(timedelta(minutes=11))
        github.set_state(1, "closed", OWNER)

        wait_until_closed(github, work)
        wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
        work.end()

        assert not github.interruptions
        del github.issues[1]
        check_server(github)
        assert work.starts() == {str(number): 1 for number in range(2, ISSUES + 2)}


def test_two_fleets_that_race_for_the_same_labels_work_on_every_issue_once(tmp_path: Path) -> None:
    bots = {"herd-bot", "other-bot"}
    with github_in_thread() as github:
        for number in range(1, ISSUES + 1):
            github.add(number)
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        one, two = (WorkProcess.create(folder, source_of(github), takes=0.1, max_concurrent=2) for folder in folders)
        two.github_token = OTHER_BOT_TOKEN
        with one, two:
            one.start()
            two.start()
            # Nothing is offered before both of them look: on a busy machine the first would be done by then.
            wait_until(lambda: {entry.login for entry in github.requests("GET", "/issues?")} == bots, two.log)
            for number in range(1, ISSUES + 1):
                github.label(number, "ready")
            wait_until_closed(github, one)
            wait_until(lambda: not one.open_claims() + two.open_claims(), lambda: f"open: {one.open_claims()}")
            one.end()
            two.end()

        check_server(github)
        assert one.starts() + two.starts() == {str(number): 1 for number in range(1, ISSUES + 1)}
        losers = [entry for entry in github.requests("DELETE", "/labels/ready") if entry.status != 200]
        winners = [entry for entry in github.requests("DELETE", "/labels/ready") if entry.status == 200]
        assert len(winners) == ISSUES, f"one of two removes a label; {len(losers)} came too late"
        assert {entry.login for entry in winners} <= bots


def test_pull_requests_are_worked_on_and_stay_open(tmp_path: Path) -> None:
    pulls = ", item: pull_requests"
    with github_in_thread() as github, WorkProcess.create(tmp_path, source_of(github, pulls)) as work:
        github.add(1, "ready", is_pull_request=True)
        github.add(2, "ready", is_pull_request=True)
        github.add(3, "ready", title="an issue")
        github.fail("GET", "/pulls/1", 502)
        work.start()

        wait_until(lambda: not github.issues[1].labels + github.issues[2].labels, work.log)
        wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
        work.end()

        issue = github.issues.pop(3)
        check_server(github)
        assert {issue.state for issue in github.issues.values()} == {"open"}, "who reviews does not close"
        assert issue.labels == ["ready"]
        assert work.starts() == {"1": 1, "2": 1}
