"""Schedules that no file defines: edited with a preview, deleted and restored; and runs with another prompt."""

import json
import re
from html import unescape

import pytest
from tests.dashboard.conftest import ShownFleet, find_notice_key
from tests.dashboard.test_now import find_record

from herdbeat.errors import NotFound
from herdbeat.redaction import register_secrets
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.reader import Filter


@pytest.fixture
def own(shown: ShownFleet) -> ShownFleet:
    """A fleet with one schedule that somebody created by hand."""
    assert shown.cli().run("create", "triage/evening", "--cron", "0 18 * * *", "--prompt", "Close the day.").status == 0
    return shown


def form_of(shown: ShownFleet, **changes: str) -> dict[str, str]:
    fields = {
        "name": "triage/evening",
        "timing": "0 18 * * *",
        "timezone": "Europe/Berlin",
        "prompt": "Close the day.",
        "enabled": "1",
    }
    return {**fields, **changes}


def test_an_edit_shows_the_next_runs_with_clock_changes_and_changes_nothing_yet(own: ShownFleet) -> None:
    before = find_record(own, "triage", "evening").plan

    page = own.submit("/actions/edit", **form_of(own, timing="30 2 * * *"))

    assert page.status == 200
    assert "02:30 does not exist" in unescape(page.text)  # the night of 29 March
    assert "18:00" in page.text
    assert find_record(own, "triage", "evening").plan == before


def test_a_saved_edit_changes_only_what_was_changed_and_is_undone(own: ShownFleet) -> None:
    before = find_record(own, "triage", "evening").plan

    page = own.follow(own.submit("/actions/edit", **form_of(own, timing="2h", confirmed="1")))
    after = find_record(own, "triage", "evening").plan
    own.submit("/actions/undo", notice=find_notice_key(page))

    assert "herdbeat update triage/evening --every 2h" in page.text
    assert (after.trigger.describe(), after.policies) == ("every 2h", before.policies)
    assert find_record(own, "triage", "evening").plan == before


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("timing", "10x", "10x"), ("timing", "soon", "is no timing"), ("timezone", "Mars", "Mars")],
)
def test_a_wrong_value_is_told_beside_the_form_which_keeps_what_was_typed(
    own: ShownFleet, field: str, value: str, message: str
) -> None:
    page = own.submit("/actions/edit", **form_of(own, **{field: value}))

    assert page.status == 422
    assert message in unescape(page.text)
    assert f'value="{value}"' in page.text


def test_two_people_who_edit_at_once_do_not_overwrite_each_other(own: ShownFleet) -> None:
    seen = own.submit("/actions/edit", **form_of(own, timing="2h")).text
    version = re.search(r'name="version" value="([^"]+)"', seen)
    assert version is not None
    own.cli().run("update", "triage/evening", "--every", "5h")

    page = own.follow(own.submit("/actions/edit", **form_of(own, timing="2h", confirmed="1", version=version[1])))

    assert "notice refusal" in page.text
    assert find_record(own, "triage", "evening").plan.trigger.describe() == "every 5h"


def test_a_schedule_of_a_file_cannot_be_edited_here(shown: ShownFleet) -> None:
    page = shown.follow(
        shown.submit("/actions/edit", **form_of(shown, name="triage/standup", timing="2h", confirmed="1"))
    )

    assert "notice refusal" in page.text
    assert find_record(shown, "triage", "standup").plan.trigger.kind == "cron"


def test_a_deleted_schedule_comes_back_by_its_undo_and_those_of_a_file_stay(own: ShownFleet) -> None:
    before = find_record(own, "triage", "evening").plan
    names = ["triage/evening", "triage/standup"]

    page = own.follow(own.submit("/actions/schedules", action="delete", name=names, confirmed="1"))
    with own.gateway.open() as handle, pytest.raises(NotFound):
        find_schedule(handle.require_reader(), "triage/evening")
    own.submit("/actions/undo", notice=find_notice_key(page))

    assert "1 schedule of a file stay" in page.text
    assert find_record(own, "triage", "evening").plan == before
    assert find_record(own, "triage", "standup").plan is not None


def test_a_run_with_another_prompt_carries_it_and_the_schedule_keeps_its_own(shown: ShownFleet) -> None:
    page = shown.follow(
        shown.submit("/actions/schedules", action="run", name="triage/standup", prompt="Say it in Latin.\r\nTwice.")
    )
    same = shown.follow(
        shown.submit("/actions/schedules", action="run", name="triage/issues", prompt="Look at the issues.")
    )

    with shown.gateway.open() as handle:
        reader = handle.require_reader()
        given = {each.schedule: reader.beat_data(each.id) for each in reader.beats(Filter(limit=2))}
        record = find_schedule(reader, "triage/standup")
        assert reader.run_specs([record.id])[record.id].prompt == "Say what is next."
    assert "runs now with another prompt" in page.text
    assert "herdbeat run triage/standup --prompt" in page.text
    assert json.loads(given["triage/standup"] or "{}")["prompt"] == "Say it in Latin.\nTwice."
    assert given["triage/issues"] is None
    assert "with another prompt" not in same.text


def test_another_prompt_takes_an_administrator(shown: ShownFleet) -> None:
    operator = shown.bearer("operate", "op")

    page = operator.get("/schedules/triage/standup").text
    token = re.search(r'name="csrf_token" value="([^"]*)"', page)
    assert token is not None
    shown.submit(
        "/actions/schedules",
        operator,
        action="run",
        name="triage/standup",
        prompt="Say it in Latin.",
        csrf_token=token[1],
    )

    assert "Another prompt needs an administrator" in page
    with shown.gateway.open() as handle:
        assert [each.source for each in handle.require_reader().beats(Filter(target="triage", name="standup"))] == []


def test_run_again_with_changes_offers_the_prompt_of_its_schedule(shown: ShownFleet) -> None:
    page = shown.client().get("/runs/0001").text

    assert "with changes…" in page
    assert re.search(r'<textarea id="run-prompt"[^>]*>Look at the issues\.</textarea>', page)


def test_the_page_of_a_run_had_a_secret_in_the_prompt_of_its_form(shown: ShownFleet) -> None:
    register_secrets(["ook at the iss"])  # as `${NAME}` in the prompt of a file does

    page = shown.client().get("/runs/0001").text
    same = shown.follow(shown.submit("/actions/schedules", action="run", name="triage/issues", prompt="L***ues."))
    changed = shown.submit("/actions/schedules", action="run", name="triage/issues", prompt="L***ues, twice.")

    assert re.search(r'<textarea id="run-prompt"[^>]*>L\*\*\*ues\.</textarea>', page)
    assert "Look at the issues" not in page
    assert "with another prompt" not in same.text
    assert "stands for a hidden value" in shown.follow(changed).text
    with shown.gateway.open() as handle:
        reader = handle.require_reader()
        assert [reader.beat_data(each.id) for each in reader.beats(Filter(limit=1))] == [None]
