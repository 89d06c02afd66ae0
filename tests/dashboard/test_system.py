"""The page System: what it shows of nodes, checks, notifications, pauses and refused calls, and what it changes."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from tests.dashboard.conftest import ShownFleet, find_notice_key
from tests.server.conftest import NOW

from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.service.commands.base import Actor, PlanPause
from herdbeat.service.webhooks.refused_calls import RefusedCalls, save_refused_calls
from herdbeat.store.location import create_store, store_location


def open_episode(shown: ShownFleet) -> None:
    failing = ActiveCondition(kind=ConditionKind.FAILING, subject="triage/issues", since=NOW, detail="it broke")
    with closing(create_store(store_location(shown.fleet))) as store:
        store.open()
        store.write_now(lambda tx: tx.episode_open_many("ops", [failing], NOW))


def read_episode(shown: ShownFleet) -> tuple[str, bool]:
    with shown.gateway.open() as handle:
        (episode,) = handle.require_reader().episodes()
    return episode.acked_by, episode.snoozed_until is not None


def test_an_episode_is_acknowledged_snoozed_and_taken_back(shown: ShownFleet) -> None:
    open_episode(shown)
    form = {"subject": "triage/issues", "return_to": "/system"}

    page = shown.client().get("/system").text
    acked = shown.follow(shown.submit("/actions/notifications", action="ack", **form))
    after_ack = read_episode(shown)
    shown.submit("/actions/undo", notice=find_notice_key(acked))
    after_undo = read_episode(shown)
    snoozed = shown.follow(shown.submit("/actions/notifications", action="snooze", **form, **{"for": "2h"}))

    assert "it broke" in page
    assert "herdbeat notify ack triage/issues" in acked.text
    assert after_ack[0].startswith("human:")
    assert after_undo == ("", False)
    assert "herdbeat notify snooze triage/issues --for 2h" in snoozed.text
    assert read_episode(shown)[1] is True


def test_a_planned_pause_is_listed_cancelled_and_planned_again(shown: ShownFleet) -> None:
    window = PlanPause(from_at=NOW + timedelta(hours=1), until=NOW + timedelta(hours=3), names=("backup",))
    shown.gateway.deliver(Actor(name="human:you"), window)

    listed = shown.client().get("/system").text
    page = shown.follow(shown.submit("/actions/pauses", pause="1", return_to="/system"))
    shown.submit("/actions/undo", notice=find_notice_key(page))

    assert "Planned pauses" in listed
    assert "The planned pause of backup is cancelled." in page.text
    with shown.gateway.open() as handle:
        (again,) = handle.require_reader().planned_pauses(handle.now)
    assert (again.selection.names, again.until) == (("backup",), window.until)


def test_a_pause_is_planned_on_the_page_and_taken_back(shown: ShownFleet) -> None:
    form = {"what": "backup", "from": "2h", "until": "3h", "reason": "upgrade", "return_to": "/system"}

    page = shown.follow(shown.submit("/actions/pauses", **form))
    with shown.gateway.open() as handle:
        (planned,) = handle.require_reader().planned_pauses(handle.now)
    unknown = shown.follow(shown.submit("/actions/pauses", **{**form, "what": "nothing-like-that"}))
    nonsense = shown.follow(shown.submit("/actions/pauses", **{**form, "from": "<b>soon</b>"}))
    shown.submit("/actions/undo", notice=find_notice_key(page))

    assert "herdbeat pause backup --from" in page.text
    assert (planned.selection.names, planned.until - planned.from_at) == (("backup",), timedelta(hours=3))
    assert "nothing-like-that" in unknown.text
    assert "&lt;b&gt;soon" in nonsense.text
    with shown.gateway.open() as handle:
        assert handle.require_reader().planned_pauses(handle.now) == []


def test_refused_calls_are_listed_and_stay_text(shown: ShownFleet) -> None:
    calls = RefusedCalls()
    calls.add(
        RefusedCall(
            at=NOW, schedule="<b>x</b>", peer="192.0.2.1", size=12, status=401, reason="bad_signature", detail=""
        )
    )
    with shown.gateway.open() as handle:
        save_refused_calls(handle.path, calls.take_unsaved())

    page = shown.client().get("/system").text

    assert "bad signature" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page


def test_the_checks_are_those_of_doctor_and_a_reader_cannot_start_them(show: Callable[[str], ShownFleet]) -> None:
    shown = show("")

    page = shown.client().get("/system?checks=1").text
    reader = shown.bearer("read").get("/system?checks=1").text

    assert "pets, 3 targets, 4 schedules" in page
    assert "pets, 3 targets" not in reader


def test_one_apply_is_one_line_of_the_changes(shown: ShownFleet) -> None:
    page = shown.client().get("/system").text

    assert "and 3 more" in page
