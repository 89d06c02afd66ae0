"""The pages of the planner: sessions, their reasoning, and what became of each proposal."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial

from tests.dashboard.conftest import ShownFleet
from tests.server.conftest import NOW
from tests.support.planner_contract import make_session

from herdbeat.domain.planner import ActionKind, PlannedAction, PlannerSession, SessionStatus, ToolUse
from herdbeat.store.base import Transaction
from herdbeat.store.location import create_store, store_location

HOSTILE = "<script>pwned()</script>"


def keep(shown: ShownFleet, *sessions: PlannerSession) -> None:
    with closing(create_store(store_location(shown.fleet))) as store:
        store.open()
        for session in sessions:
            store.write_now(partial(add_session, session))


def add_session(session: PlannerSession, tx: Transaction) -> None:
    tx.planner_add_session(session)


def test_a_session_shows_its_reasoning_its_warnings_and_what_became_of_each_proposal(shown: ShownFleet) -> None:
    done = PlannedAction(
        kind=ActionKind.PROPOSE_INTERVAL, schedule="backup", reason="it grows", every_s=90, lasts_s=600, outcome="done"
    )
    refused = PlannedAction(
        kind=ActionKind.PAUSE_UNTIL,
        schedule="triage/issues",
        reason="quiet",
        at=NOW + timedelta(hours=2),
        outcome="refused: a person paused it",
    )
    keep(shown, replace(make_session(NOW), actions=(done, refused), warnings=("the cost is unknown",)))

    page = shown.client().get("/planner/1").text

    assert "It grows." in page
    assert "the cost is unknown" in page
    assert "every 1m 30s for 10m" in page
    assert "✓ done" in page
    assert "pause until 16:04" in page
    assert "– refused: a person paused it" in page
    assert "submit_analysis" in page
    assert "herdbeat planner show 1" in page


def test_sessions_are_listed_with_their_usage_and_on_the_page_system(shown: ShownFleet) -> None:
    failed = replace(make_session(NOW), group="vendors", status=SessionStatus.FAILED, error="no answer", usd=None)
    keep(shown, make_session(NOW - timedelta(minutes=5)), failed)

    page, one, system = (shown.client().get(path).text for path in ("/planner", "/planner?group=shop", "/system"))

    assert page.index("no answer") < page.index("It grows.")  # the newest first
    assert '<span class="title">tokens today</span><span class="number">20</span>' in page
    assert "no answer" not in one
    assert "all sessions" in system
    assert 'data-open="/planner/2"' in system


def test_a_fleet_without_sessions_says_what_the_planner_is(shown: ShownFleet) -> None:
    page = shown.client().get("/planner").text

    assert "The planner has not looked at this fleet" in page
    assert "provider:" in page
    assert "all sessions" not in shown.client().get("/system").text


def test_an_unknown_session_is_a_page_that_says_so(shown: ShownFleet) -> None:
    for path in ("/planner/7", "/planner/x", "/planner/0", "/planner/99999999999999999999999"):
        answer = shown.client().get(path)

        assert answer.status == 404
        assert "There is no session" in answer.text


def test_what_a_model_says_stays_text(shown: ShownFleet) -> None:
    action = PlannedAction(kind=ActionKind.CLEAR_HINTS, schedule=HOSTILE, reason=HOSTILE, outcome=HOSTILE)
    call = ToolUse(tool=HOSTILE, arguments={HOSTILE: HOSTILE}, answer=HOSTILE, ok=False)
    said = replace(make_session(NOW), group=HOSTILE, reasoning=HOSTILE, warnings=(HOSTILE,), error=HOSTILE)
    keep(shown, replace(said, actions=(action,), calls=(call,)))

    pages = [shown.client().get(path).text for path in ("/planner/1", "/planner", "/system")]

    assert all(HOSTILE not in page for page in pages)
    assert "&lt;script&gt;pwned()" in pages[0]
