"""Issues of Linear as work: what is offered, claims by comment, reports, limits, nodes that die."""

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.fake_github import NOW
from tests.support.fake_linear import KEY, STATES, FakeLinear, serve_linear
from tests.support.work_fleet import DyingTransport, Fleet, work_until_killed

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.testing import FakeClock
from herdbeat.work.base import (
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    Sleep,
    WorkClaim,
    WorkSourceFailed,
    build_item,
)
from herdbeat.work.http import HttpTransport
from herdbeat.work.linear import LinearSettings, LinearSource

MakeLinear = Callable[..., LinearSource]
DONE = Report(succeeded=True, summary="Fixed it.")
FAILED = Report(succeeded=False, error="It broke.", attempt=1, max_attempts=3)
ITEM = build_item("ENG-1", title="")


@pytest.fixture
async def linear(clock: FakeClock) -> AsyncIterator[FakeLinear]:
    async with serve_linear(clock) as server:
        yield server


def bind(linear: FakeLinear, clock: FakeClock, sleep: Sleep, transport: HttpTransport) -> MakeLinear:
    def make(through: HttpTransport | None = None, **settings: Any) -> LinearSource:
        options = LinearSettings(**{"api_key": KEY, **settings})
        return LinearSource(options, through or transport, clock, sleep, url=linear.url)

    return make


@pytest.fixture
def make_linear(linear: FakeLinear, clock: FakeClock, sleep: Sleep, transport: HttpTransport) -> MakeLinear:
    return bind(linear, clock, sleep, transport)


def claim_of(marker: str, item: WorkItem = ITEM) -> WorkClaim:
    return WorkClaim(item=item, run_marker=marker, claimed_at=NOW)


async def test_ready_issues_are_listed_by_priority_then_by_age(linear: FakeLinear, make_linear: MakeLinear) -> None:
    linear.page_size = 2
    linear.add("ENG-1", "ready", priority=4)
    linear.add("ENG-2", "ready", priority=0)
    linear.add("ENG-3", "ready", "blocked")
    linear.add("ENG-4", "ready", priority=1)
    linear.add("ENG-5", "ready", "agent-working")
    linear.add("ENG-6", "bug")
    linear.add("ENG-7", "ready", priority=3)

    items = await make_linear().list()

    assert [(item.id, item.priority) for item in items] == [
        ("ENG-4", "critical"),
        ("ENG-2", "medium"),
        ("ENG-7", "medium"),
        ("ENG-1", "low"),
    ]
    assert items[0].metadata["team"] == "ENG"


async def test_the_filters_reach_linear(linear: FakeLinear, make_linear: MakeLinear) -> None:
    await make_linear(team_key="ENG", project="App", states=("Todo",), filter_labels=("bug",)).list()

    conditions = linear.log[0][1]["filter"]["and"]
    assert {"team": {"key": {"eq": "ENG"}}} in conditions
    assert {"project": {"name": {"eq": "App"}}} in conditions
    assert {"state": {"name": {"in": ["Todo"]}}} in conditions
    assert {"labels": {"some": {"name": {"eqIgnoreCase": "bug"}}}} in conditions


async def test_a_claim_swaps_the_labels_and_success_finishes_the_issue(
    linear: FakeLinear, make_linear: MakeLinear
) -> None:
    issue = linear.add("ENG-1", "ready", "bug")
    source = make_linear()

    results = [await make_linear().claim(ITEM, marker) for marker in ("m1", "m1", "m2")]
    labels_in_progress = sorted(issue.labels)
    for _ in range(2):
        await source.report(claim_of("m1"), DONE)

    assert [result.status for result in results] == [ClaimStatus.CLAIMED, ClaimStatus.CLAIMED, ClaimStatus.LOST]
    assert labels_in_progress == ["agent-working", "bug"]
    assert (issue.labels, issue.state_name) == (["bug"], "Done")
    assert [comment["body"].splitlines()[0] for comment in issue.comments] == [
        "herdbeat claim `m1`",
        "herdbeat report `m1`",
    ]


async def test_success_may_lead_to_a_named_state(linear: FakeLinear, make_linear: MakeLinear) -> None:
    issue = linear.add("ENG-1", "ready")
    source = make_linear(done_state="released")
    await source.claim(ITEM, "m1")

    await source.report(claim_of("m1"), DONE)

    assert issue.state_name == "Released"


async def test_a_state_whose_place_is_no_number_does_not_keep_an_issue_open(
    linear: FakeLinear, make_linear: MakeLinear, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in STATES:
        monkeypatch.setitem(state, "position", "somewhere")
    issue = linear.add("ENG-1", "ready")
    source = make_linear()
    await source.claim(ITEM, "m1")

    await source.report(claim_of("m1"), DONE)

    assert issue.state_name == "Released"


async def test_of_two_that_comment_at_once_the_first_wins(linear: FakeLinear, make_linear: MakeLinear) -> None:
    issue = linear.add("ENG-1", "ready")
    linear.interrupt("commentCreate", lambda: linear.comment("ENG-1", "herdbeat claim `theirs`\n\nmine"))

    result = await make_linear().claim(ITEM, "ours")

    assert result.status is ClaimStatus.LOST
    assert (len(issue.comments), issue.labels) == (1, ["ready"]), "our comment is taken back, the labels are theirs"


async def test_a_claim_without_labels_is_in_the_way_for_ten_minutes(
    linear: FakeLinear, make_linear: MakeLinear, clock: FakeClock
) -> None:
    linear.add("ENG-1", "ready")
    linear.comment("ENG-1", "herdbeat claim `dead`\n\n")

    early = await make_linear().claim(ITEM, "m1")
    clock.advance(timedelta(minutes=11))
    late = await make_linear().claim(ITEM, "m2")

    assert (early.status, late.status) == (ClaimStatus.LOST, ClaimStatus.CLAIMED)


async def test_a_failure_is_offered_again_until_the_last_attempt(linear: FakeLinear, make_linear: MakeLinear) -> None:
    issue = linear.add("ENG-1", "ready")
    source = make_linear()
    seen = []
    for attempt in (1, 2):
        assert (await source.claim(ITEM, f"m{attempt}")).status is ClaimStatus.CLAIMED
        report = Report(succeeded=False, error="It broke.", attempt=attempt, max_attempts=2)
        await source.report(claim_of(f"m{attempt}"), report)
        seen.append(list(issue.labels))

    assert (seen, issue.state_name) == ([["ready"], []], "Todo")


async def test_a_release_and_its_repetition(linear: FakeLinear, make_linear: MakeLinear) -> None:
    issue = linear.add("ENG-1", "ready")
    await make_linear().claim(ITEM, "m1")

    statuses = [await make_linear().release(claim_of("m1")) for _ in range(2)]

    assert statuses == [ReleaseStatus.RELEASED, ReleaseStatus.NOT_OURS]
    assert (issue.labels, issue.comments) == (["ready"], [])


async def test_a_late_report_leaves_the_claim_of_another_alone(linear: FakeLinear, make_linear: MakeLinear) -> None:
    issue = linear.add("ENG-1", "ready")
    source = make_linear()
    await source.claim(ITEM, "m1")
    await source.report(claim_of("m1"), FAILED)
    await source.claim(ITEM, "m2")

    await source.report(claim_of("m1"), FAILED)

    assert (await source.release(claim_of("m1")), issue.labels) == (ReleaseStatus.NOT_OURS, ["agent-working"])


@pytest.mark.parametrize("end", ["done", "failed", "released"])
async def test_a_person_who_offers_an_issue_again_while_it_is_worked_on_gets_another_run(
    linear: FakeLinear, make_linear: MakeLinear, end: str
) -> None:
    issue = linear.add("ENG-1", "ready")
    source = make_linear()
    await source.claim(ITEM, "m1")
    issue.labels.append("ready")
    assert await source.list() == (), "it is not taken twice at a time"

    if end == "released":
        await source.release(claim_of("m1"))
    else:
        await source.report(claim_of("m1"), DONE if end == "done" else FAILED)

    assert (issue.state_name, issue.labels) == ("Todo", ["ready"])


async def test_deleted_and_finished_issues_are_gone(linear: FakeLinear, make_linear: MakeLinear) -> None:
    linear.add("ENG-2", "ready", state="S-done")

    statuses = [(await make_linear().claim(build_item(name, title=""), "m1")).status for name in ("ENG-1", "ENG-2")]

    assert statuses == [ClaimStatus.GONE, ClaimStatus.GONE]
    assert await make_linear().release(claim_of("m1")) is ReleaseStatus.GONE


async def test_a_limit_is_reported_with_its_end_and_nothing_is_sent_meanwhile(
    linear: FakeLinear, make_linear: MakeLinear, clock: FakeClock
) -> None:
    reset = str(int((clock.now() + timedelta(minutes=5)).timestamp() * 1_000))
    error = {"errors": [{"message": "Rate limit exceeded", "extensions": {"code": "RATELIMITED"}}]}
    linear.fail("issues", 400, error, {"X-RateLimit-Requests-Reset": reset})
    source = make_linear()

    with pytest.raises(WorkSourceFailed, match="rate limit") as caught:
        await source.list()
    with pytest.raises(WorkSourceFailed, match="rate limit"):
        await source.list()

    assert (caught.value.cause, caught.value.retry_after) == (FailureCause.RATE_LIMITED, timedelta(minutes=5))
    assert len(linear.log) == 1


async def test_a_refused_key_never_stays_in_a_message(linear: FakeLinear, make_linear: MakeLinear) -> None:
    with pytest.raises(WorkSourceFailed) as caught:
        await make_linear(api_key="lin_api_wrong0000").list()
    linear.fail("issues", 400, {"errors": [{"message": f"bad {KEY}"}]})
    with pytest.raises(WorkSourceFailed) as other:
        await make_linear().list()

    assert caught.value.cause is FailureCause.AUTHENTICATION
    assert "lin_api" not in f"{caught.value.message} {other.value.message}"


@pytest.mark.parametrize("executes", [True, False])
@pytest.mark.parametrize("status", [0, 502])
async def test_a_comment_whose_answer_is_lost_is_written_once(
    linear: FakeLinear, make_linear: MakeLinear, status: int, executes: bool
) -> None:
    issue = linear.add("ENG-1", "ready")
    linear.fail("commentCreate", status, executes=executes)

    result = await make_linear().claim(ITEM, "m1")

    assert (result.status, len(issue.comments)) == (ClaimStatus.CLAIMED, 1)


@pytest.mark.parametrize("junk", [None, 5, [], {}, {"data": 1}, {"data": {}}, {"data": {"issue": 3}}], ids=repr)
@pytest.mark.parametrize("name", ["issues", "issue", "issueLabels", "team", "issueUpdate", "commentCreate"])
async def test_nonsense_from_the_server_is_never_a_traceback(
    linear: FakeLinear, make_linear: MakeLinear, name: str, junk: Any
) -> None:
    linear.add("ENG-1", "ready")
    for _ in range(20):
        linear.fail(name, 200, junk)
    source = make_linear()

    with contextlib.suppress(WorkSourceFailed):
        await source.list()
    with contextlib.suppress(WorkSourceFailed):
        await source.claim(ITEM, "m1")
    with contextlib.suppress(WorkSourceFailed):
        await source.report(claim_of("m1"), DONE)
    with contextlib.suppress(WorkSourceFailed):
        await source.release(claim_of("m1"))


async def test_a_missing_label_is_a_config_error(linear: FakeLinear, make_linear: MakeLinear) -> None:
    linear.add("ENG-1", "ready")

    with pytest.raises(WorkSourceFailed, match='no label "busy"') as caught:
        await make_linear(in_progress="busy").claim(ITEM, "m1")

    assert caught.value.cause is FailureCause.CONFIG


async def test_hostile_texts_pass_through_as_data(linear: FakeLinear, make_linear: MakeLinear) -> None:
    hostile = "{{secret}} $(rm -rf /) --flag \x1b[31m herdbeat claim `x`"
    linear.add("ENG-1", "ready", title=hostile, description=hostile)

    result = await make_linear().claim(ITEM, "m1")

    assert result.item is not None
    assert (result.item.title, result.item.body) == (hostile, hostile)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("failures", [0, 1])
async def test_a_node_that_dies_at_any_request_loses_doubles_and_blocks_nothing(
    clock: FakeClock, sleep: Sleep, transport: HttpTransport, after: bool, failures: int
) -> None:
    for at_request in range(1, 100):
        fleet = Fleet(clock, "n", succeeds=lambda run: run > failures)
        async with serve_linear(clock) as linear, DyingTransport(at_request, after=after) as dying:
            issue = linear.add("ENG-1", "ready")
            make = bind(linear, clock, sleep, transport)
            has_died = await work_until_killed(fleet, make(through=dying))
            await fleet.finish(make)
        assert (issue.state_name, issue.labels) == ("Done", []), f"stuck at request {at_request}"
        reports = [comment["body"] for comment in issue.comments if "report" in comment["body"]]
        assert len(reports) == len(set(reports))
        assert sum("succeeded" in report for report in reports) == 1
        assert fleet.runs["ENG-1"] <= failures + 2
        if not has_died:
            break
    assert at_request > 8, "it died at every request of a claim and a report"
