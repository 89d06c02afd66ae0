"""Every page renders, from any state of the ledger; its address is its state; and what others write stays text."""

import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from urllib.parse import urlencode

import pytest
from tests.dashboard.conftest import ShownFleet, find_notice_key
from tests.dashboard.test_now import find_record
from tests.support.asgi_client import AsgiClient, AsgiResponse

from herdbeat.dashboard.render import render_ansi
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.durations import format_duration
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.service.commands.base import Actor, HintSchedules, Scope
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import create_store, store_location
from herdbeat.store.reader import Filter

HOSTILE = """<script>alert(1)</script> "quoted' <img src=x onerror=alert(1)> \x1b[31mred\x1b[0m"""
PAGES = (
    "/",
    "/schedules",
    "/schedules?q=state:failing&group=target&sort=cost",
    "/schedules/triage/issues",
    "/schedules/triage/standup?timing=10m",
    "/schedules/backup/default?timing=nonsense&window=7d",
    "/runs",
    "/runs?status=failed&q=broke",
    "/runs/0001",
    "/timeline",
    "/timeline?range=24h&q=-triage",
    "/system",
    "/system?checks=1",
)


def add_run(shown: ShownFleet, outcome: Outcome, event: str = "again") -> None:
    """Let a node run the first schedule once more."""
    now = shown.clock.now()
    from contextlib import closing

    with closing(create_store(store_location(shown.fleet))) as store:
        store.open()
        node = store.write_now(lambda tx: register_node(tx, now, NodeInfo(host="here", pid=1, version="test")))
        claim = store.write_now(
            lambda tx: claim_single(tx, now, node.node_id, 1, origin="program", event_id=event)
        ).claims[0]
        store.write_now(lambda tx: complete_runs(tx, now, [FinishedRun(claim.run_id, now, outcome)]))
        store.write_now(lambda tx: tx.leave_node(node.node_id, now))


@pytest.mark.parametrize("path", PAGES)
def test_every_page_renders_without_inline_style_or_script(shown: ShownFleet, path: str) -> None:
    page = shown.client().get(path)

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", page.text)
    assert page.text.count("<h1") == 2  # its own, and that of the closed list of keys
    assert page.text.count('<main id="main"') == 1


@pytest.mark.parametrize("path", ["/schedules/nobody/here", "/runs/zzzz", "/schedules/triage/isues"])
def test_what_does_not_exist_is_a_page_that_says_so(shown: ShownFleet, path: str) -> None:
    page = shown.client().get(path)

    assert (page.status, "text/html" in page.headers["content-type"]) == (404, True)
    assert "There is no" in page.text


@pytest.mark.parametrize("path", ["/nowhere", "/schedules/a/b/c/d", "/actions/schedules"])
def test_an_address_that_does_not_exist_is_a_page_for_people_and_json_for_programs(
    shown: ShownFleet, path: str
) -> None:
    person = shown.client(accept="text/html,*/*").get(path)
    program = shown.client(accept="application/json").get(path)

    assert (person.status, person.headers["content-type"]) == (program.status, "text/html; charset=utf-8")
    assert "There is no such page." in person.text
    assert 'href="/"' in person.text
    assert "content-security-policy" in person.headers
    assert program.headers["content-type"] == "application/problem+json"


def test_an_address_of_the_api_stays_json_in_a_browser(shown: ShownFleet) -> None:
    answer = shown.client(accept="text/html").get("/api/v1/nowhere")

    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


def test_the_token_of_an_agent_opens_no_page_and_says_how_to_sign_in_otherwise(
    show: Callable[[str], ShownFleet],
) -> None:
    page = show("").bearer("agent:triage").get("/schedules")

    assert page.status == 403
    assert "Sign in with another token" in page.text
    assert "queue-depth" not in page.text


@pytest.mark.parametrize("path", ["/", "/schedules/triage/issues", "/runs", "/runs/0002"])
def test_what_a_run_says_is_never_markup(shown: ShownFleet, path: str) -> None:
    add_run(shown, Outcome(status=RunStatus.FAILED, error=HOSTILE, response={"<b>key</b>": HOSTILE}))

    page = shown.client().get(path)

    assert page.status == 200
    assert "<script>alert" not in page.text
    assert "<img src=x" not in page.text
    assert "<b>key" not in page.text
    assert "<script>alert(1)</script>" in unescape(page.text)


def test_a_query_is_never_markup(shown: ShownFleet) -> None:
    text = '"><script>alert(1)</script>'

    pages = [
        shown.client().get(f"{path}={text}")
        for path in ("/schedules?q", "/runs?q", "/runs?schedule", "/timeline?q", "/schedules/triage/issues?timing")
    ]

    assert [each.status for each in pages] == [200] * 5
    assert not any("<script>alert" in each.text for each in pages)


def test_the_address_of_the_list_is_its_state(shown: ShownFleet) -> None:
    tagged = shown.client().get("/schedules?q=tag:vendor-x").text
    excluded = shown.client().get("/schedules?q=-tag:vendor-x%20-backup").text
    nothing = shown.client().get("/schedules?q=nosuchname").text

    assert re.findall(r'data-open="/schedules/([^"]+)"', tagged) == ["triage/issues", "queue-depth/default"]
    assert re.findall(r'data-open="/schedules/([^"]+)"', excluded) == ["triage/standup"]
    assert "No schedule matches" in nothing
    assert "Clear the filter" in nothing


@pytest.mark.parametrize(
    ("sort", "first"), [("name", "backup/default"), ("failures", "triage/issues"), ("last", "triage/issues")]
)
def test_the_list_is_sorted_by_what_the_address_says(shown: ShownFleet, sort: str, first: str) -> None:
    page = shown.client().get(f"/schedules?sort={sort}").text

    assert re.findall(r'data-open="/schedules/([^"]+)"', page)[0] == first


def test_a_bulk_pause_of_a_filter_is_asked_first_changes_exactly_that_and_is_undone(shown: ShownFleet) -> None:
    form = {"action": "pause", "filter": "tag:vendor-x", "expect": "2"}
    stale = shown.follow(shown.submit("/actions/schedules", **{**form, "expect": "3"}))
    asked = shown.submit("/actions/schedules", **form)
    untouched = find_record(shown, "queue-depth", "default").paused
    page = shown.follow(shown.submit("/actions/schedules", **form, confirmed="1"))

    assert "2 schedules match now, not 3" in stale.text
    assert "Pause all 2 schedules that match tag:vendor-x?" in asked.text
    assert "triage/issues" in asked.text
    assert "herdbeat pause triage/issues queue-depth" in asked.text
    assert untouched is False
    assert "2 schedules paused." in page.text
    assert find_record(shown, "queue-depth", "default").paused is True
    assert find_record(shown, "backup", "default").paused is False

    shown.submit("/actions/undo", notice=find_notice_key(page))

    assert find_record(shown, "queue-depth", "default").paused is False


def test_selected_schedules_are_run_and_given_a_hint_at_once(shown: ShownFleet) -> None:
    names = ["backup", "queue-depth"]

    ran = shown.follow(shown.submit("/actions/schedules", action="run", name=names))
    hinted = shown.follow(
        shown.submit("/actions/schedules", action="hint", name=["queue-depth", "triage/issues"], every="1m", lasts="5m")
    )

    assert "2 schedules run now" in ran.text
    with shown.gateway.open() as handle:
        waiting = handle.require_reader().beats(Filter(outcome=BeatOutcome.PENDING))
    assert sorted((each.schedule, each.source) for each in waiting) == [("backup", "manual"), ("queue-depth", "manual")]
    assert "2 schedules given a hint" in hinted.text


@pytest.mark.parametrize(("action", "question"), [("cancel", "Cancel every run"), ("delete", "Delete backup?")])
def test_what_nothing_undoes_is_asked_first_also_for_one(shown: ShownFleet, action: str, question: str) -> None:
    asked = shown.submit("/actions/schedules", action=action, name="backup", return_to="/schedules?q=backup")

    assert (asked.status, question in asked.text) == (200, True)
    assert 'href="/schedules?q=backup"' in asked.text  # the way back


def test_runs_are_cancelled_only_after_a_question(shown: ShownFleet) -> None:
    asked = shown.submit("/actions/runs", action="cancel", run=["0001"])

    assert (asked.status, "Cancel 1 run?" in asked.text) == (200, True)


def test_the_patch_of_a_timing_is_taken_by_git_and_the_page_changes_nothing(shown: ShownFleet) -> None:
    before = find_record(shown, "queue-depth", "default").plan

    page = shown.client().get("/schedules/queue-depth/default?timing=10m").text
    wrong = shown.client().get("/schedules/queue-depth/default?timing=10x").text
    patch = re.search(r'id="patch"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert patch is not None
    apply = ["git", "apply", "-p1", "-"]
    subprocess.run(apply, cwd=shown.folder, input=unescape(patch[1]), text=True, check=True, capture_output=True)

    written = (shown.folder / "herdbeat.yaml").read_text()
    assert 'url: "https://api.example.com/queue", every: 10m, tags: [vendor-x] }' in written
    assert "10x" in wrong
    assert "is not" in unescape(wrong)
    assert find_record(shown, "queue-depth", "default").plan == before


def test_a_reader_sees_the_next_runs_of_a_preview_and_no_line_of_the_file(
    show: Callable[[str], ShownFleet],
) -> None:
    page = show("").bearer("read").get("/schedules/queue-depth/default?timing=10m").text

    assert "then</th>" in page
    assert "api.example.com" not in page


def test_a_preview_shows_the_night_in_which_the_clocks_change(shown: ShownFleet) -> None:
    page = shown.client().get("/schedules/triage/standup?timing=30%202%20*%20*%20*").text

    assert "02:30 does not exist" in unescape(page)


def test_a_run_is_started_retried_and_its_page_shows_the_response_against_the_one_before(shown: ShownFleet) -> None:
    add_run(shown, Outcome(status=RunStatus.SUCCEEDED, response={"queue": {"depth": 3}, "old": 1}))
    add_run(shown, Outcome(status=RunStatus.SUCCEEDED, response={"queue": {"depth": 5}}), "third")

    first, page = (shown.client().get(f"/runs/{run}").text for run in ("0002", "0003"))
    started = shown.follow(shown.submit("/actions/schedules", action="run", name="backup"))
    retried = shown.follow(shown.submit("/actions/runs", action="retry", run="0001"))

    assert "the run before" not in first
    assert "2 fields differ from the run before" in page
    assert '<th scope="row" class="depth-2">depth</th><td>5</td><td class="muted">3</td>' in page
    assert '>old</th><td><span class="muted">gone</span></td><td class="muted">1</td>' in page
    assert "backup runs now" in started.text
    assert "1 run retried." in retried.text


def test_a_webhook_schedule_that_nobody_has_called_shows_how_to_call_it(show: Callable[[str], ShownFleet]) -> None:
    hooked = 'callables: [{ name: deploy, call: "os:getcwd", type: webhook }]'
    shown = show(f"server: {{ base_path: /beat }}\n{hooked}")

    page = unescape(shown.bearer("read", peer="127.0.0.1").get("/beat/schedules/deploy/default").text)

    assert "curl -X POST 'http://127.0.0.1:3232/beat/hooks/deploy/default'" in page
    assert "herdbeat webhook test deploy" in page


def test_a_beat_that_did_not_run_is_explained_at_its_address(shown: ShownFleet) -> None:
    page = shown.client().get("/schedules/triage/issues?at=2026-03-26T12:00:00Z").text

    assert "had no beat due at" in page


def test_names_of_an_address_may_contain_anything(show: Callable[[str], ShownFleet]) -> None:
    page = show("").client().get("/schedules/<script>/x")

    assert page.status == 404
    assert "<script>x" not in page.text
    assert "&lt;script&gt;" in page.text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m <b>", '<span class="ansi-red">red</span> &lt;b&gt;'),
        ("\x1b[1;32mok\x1b[m", '<span class="ansi-bold ansi-green">ok</span>'),
        ("\x1b]0;title\x07x\x1b[2Jy\x00z", "xyz"),
        ("\x1b[38;5;99mz", "z"),
    ],
)
def test_colours_of_a_terminal_become_classes_and_nothing_else(text: str, html: str) -> None:
    assert str(render_ansi(text)) == html


def test_the_coming_beats_of_a_filter_are_a_calendar(shown: ShownFleet) -> None:
    answer = shown.client().get("/calendar.ics?q=backup")

    lines = answer.text.split("\r\n")
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert (lines[0], lines[-2]) == ("BEGIN:VCALENDAR", "END:VCALENDAR")
    assert {each for each in lines if each.startswith("SUMMARY")} == {"SUMMARY:backup"}
    assert "DTSTART:20260327T010000Z" in lines  # 02:00 in Berlin


def test_many_runs_are_acknowledged_or_retried_at_once(shown: ShownFleet) -> None:
    add_run(shown, Outcome(status=RunStatus.FAILED, error="again"))

    page = shown.follow(shown.submit("/actions/runs", action="retry", run=["0001", "0002"]))

    assert "2 runs retried." in page.text
    assert "herdbeat retry 0001 0002" in page.text


def test_the_timeline_goes_back_in_time_and_its_address_says_so(shown: ShownFleet) -> None:
    client = shown.client()
    now = client.get("/timeline?range=1h&q=triage")

    earlier = find_link(now, "prev")
    past = client.get(earlier)

    assert "until=2026-03-26T12%3A04%3A00Z" in earlier
    assert "range=1h" in earlier
    assert "q=triage" in earlier
    assert 'rel="next"' not in now.text
    assert "11:04" in past.text
    assert 'class="now"' not in past.text
    assert find_link(past, "next") == "/timeline?q=triage&range=1h"  # the period after it ends now
    assert 'name="until" value="2026-03-26T12:04:00Z"' in past.text  # a filter stays in the period
    assert "until=2026-03-26T11%3A04%3A00Z" in find_link(past, "prev")


@pytest.mark.parametrize("until", ["tomorrow", "2999-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "%00", "9" * 90])
def test_a_timeline_that_cannot_be_in_the_past_ends_now(shown: ShownFleet, until: str) -> None:
    page = shown.client().get(f"/timeline?range=7d&until={until}")

    assert (page.status, 'rel="next"' in page.text) == (200, False)


def find_link(page: AsgiResponse, rel: str) -> str:
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page.text)
    assert found is not None, f"the page has no link {rel}"
    return found[1].replace("&amp;", "&")


def test_the_why_panel_says_the_reason_once(shown: ShownFleet) -> None:
    shown.client().post("/api/v1/targets", {"name": "probe", "url": "https://example.com", "every": "7m"})
    page = shown.client().get("/schedules/probe/default").text
    panel = page[page.index('id="why"') : page.index('id="beats"')]

    assert panel.count("never run before") == 1


def test_the_why_panel_has_the_time_of_every_candidate_and_no_sentence_twice(shown: ShownFleet) -> None:
    client = shown.client()
    client.post("/api/v1/schedules/triage/issues/hints", {"every": "1m", "ttl": "1h", "reason": "watch"})
    page = client.get("/schedules/triage/issues").text
    panel = page[page.index('id="why"') : page.index('id="beats"')]
    steps = client.get("/api/v1/schedules/triage/issues/explain").json()["steps"]

    assert len(steps) > 1
    assert all(f'datetime="{step["at"]}"' in panel for step in steps if "at" in step)


def test_a_hint_by_a_person_is_not_called_ai(shown: ShownFleet) -> None:
    client = shown.client()
    client.post("/api/v1/schedules/triage/issues/hints", {"every": "1m", "ttl": "1h"})

    page = client.get("/schedules/triage/issues")
    answer = client.get("/api/v1/schedules/triage/issues/explain")

    found = re.search(r'<span class="tag">hint \((human:[^)]+)\)</span>', page.text)
    assert found is not None
    assert "ai-interval" not in page.text
    assert (answer.json()["source"], answer.json()["origin"]) == ("ai-interval", found[1])


def test_hints_that_have_ended_offer_nothing_to_clear(shown: ShownFleet) -> None:
    client = shown.client()
    client.post("/api/v1/schedules/triage/issues/hints", {"every": "1m", "ttl": "1h"})
    active = client.get("/schedules/triage/issues").text
    client.delete("/api/v1/schedules/triage/issues/hints")
    ended = client.get("/schedules/triage/issues").text

    assert 'value="clear_hints"' in active
    assert 'value="clear_hints"' not in ended
    assert "cleared" in ended


def test_the_login_address_without_a_code_leads_to_the_first_page(shown: ShownFleet) -> None:
    answer = shown.client().get("/login")

    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_the_page_of_the_api_has_a_style_sheet_of_its_own(shown: ShownFleet) -> None:
    page, style = shown.client().get("/api/docs"), shown.client().get("/api/docs.css")

    assert 'href="/api/docs.css"' in page.text
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")


def test_the_preview_of_another_timing_keeps_the_limits_of_the_schedule(shown: ShownFleet) -> None:
    body = {"name": "probe", "url": "https://example.com", "every": "30s", "max_interval": "1m"}
    shown.client().post("/api/v1/targets", body)

    page = shown.submit("/actions/edit", name="probe/default", timing="10m", timezone="UTC", enabled="1")

    assert "2026-03-26T13:05:00Z" in page.text  # max_interval moves it there
    assert "2026-03-26T13:14:00Z" not in page.text
    assert "max_interval 1m moves it earlier" in page.text


def test_who_signs_in_sees_the_filter_of_the_address_that_they_came_for(shown: ShownFleet) -> None:
    stranger = AsgiClient(app=shown.app, peer="192.0.2.7", headers={"accept": "text/html"})

    refused = stranger.get("/schedules?q=tag%3Avendor-x+-triage&sort=cost")
    login = refused.headers["location"]
    form = {"content-type": "application/x-www-form-urlencoded"}
    signed_in = stranger.send("POST", login, urlencode({"token": shown.token("read")}).encode(), form)

    assert (refused.status, signed_in.status) == (303, 303)
    assert signed_in.headers["location"] == "/schedules?q=tag%3Avendor-x+-triage&sort=cost"


def test_the_undo_of_a_hint_keeps_the_hints_of_others_and_what_was_asked_for_before(shown: ShownFleet) -> None:
    give = {"action": "hint", "name": "triage/issues", "lasts": "1h"}
    number = find_record(shown, "triage", "issues").id
    by_rule = HintSchedules(schedules=(number,), every=120.0, lasts=3600.0, reason="surge")
    shown.gateway.deliver(Actor(name="rule:surge", scopes=frozenset(Scope)), by_rule)
    shown.clock.advance(timedelta(seconds=1))
    shown.submit("/actions/schedules", **give, every="3m")
    shown.clock.advance(timedelta(seconds=1))

    page = shown.follow(shown.submit("/actions/schedules", **give, every="1m"))
    replaced = list_hints(shown)
    shown.clock.advance(timedelta(seconds=1))
    shown.submit("/actions/undo", notice=find_notice_key(page))
    restored = list_hints(shown)
    shown.clock.advance(timedelta(seconds=1))
    cleared = shown.follow(shown.submit("/actions/schedules", action="clear_hints", name="triage/issues"))
    nothing = list_hints(shown)
    shown.clock.advance(timedelta(seconds=1))
    shown.submit("/actions/undo", notice=find_notice_key(cleared))

    assert replaced == {("rule:surge", "2m"), (LOCAL, "1m")}
    assert restored == {("rule:surge", "2m"), (LOCAL, "3m")}
    assert nothing == set()
    assert list_hints(shown) == restored


LOCAL = "human:local"


def list_hints(shown: ShownFleet) -> set[tuple[str, str]]:
    """The hints in force of the first schedule: by whom, and which interval."""
    with shown.gateway.open() as handle:
        hints = handle.require_reader().hints(None, ended_since=shown.clock.now())
    return {(each.origin, format_duration(each.every)) for each in hints if each.ended_at is None and each.every}


def test_the_list_shows_how_long_runs_take_and_the_interval_in_effect(shown: ShownFleet) -> None:
    body = {"name": "probe", "url": "https://example.com", "every": "30s", "min_interval": "20s"}
    shown.client().post("/api/v1/targets", body)
    shown.submit("/actions/schedules", action="hint", name="probe", every="5s", lasts="1h")

    page = re.sub(r"<[^>]+>", " ", shown.client().get("/schedules").text)
    words = " ".join(page.split())

    assert "↯ every 20s (every 30s)" in words  # what the hint asks for is below the limit
    assert "↻ every 10m (every 5m)" in words  # it has failed once
    assert re.search(r"Last 60 beats p95 Cost 24 h", words)
    assert re.search(r"triage/issues vendor-x .*? 0ms", words)


def test_a_field_with_a_space_in_its_name_can_be_drawn(shown: ShownFleet) -> None:
    add_run(shown, Outcome(status=RunStatus.SUCCEEDED, response={"in queue": 3, "old": 1}))

    page = shown.client().get("/schedules/triage/issues?field=response.old").text

    assert 'href="/schedules/triage/issues?field=response.in+queue">response.in queue</a>' in page


def test_a_response_with_more_fields_than_a_page_has_says_so(shown: ShownFleet) -> None:
    add_run(shown, Outcome(status=RunStatus.SUCCEEDED, response={f"field{each}": each for each in range(400)}))

    page = shown.client().get("/runs/0002").text

    assert "field299" in page
    assert "field300" not in page
    assert "The first 300 fields." in page


def test_a_long_line_of_the_calendar_is_folded(show: Callable[[str], ShownFleet]) -> None:
    shown = show("")
    name = "n" * 60
    shown.client().post("/api/v1/targets", {"name": name, "url": "https://example.com", "every": "1h"})

    text = shown.client().get(f"/calendar.ics?q={name}").text

    assert max(len(line.encode()) for line in text.split("\r\n")) <= 75
    assert f"-{name}@herdbeat" in text.replace("\r\n ", "")


def test_a_deep_part_of_a_response_is_json_and_not_python(shown: ShownFleet) -> None:
    deep: dict[str, object] = {"e": [None, True]}
    for key in "dcba":
        deep = {key: deep}
    add_run(shown, Outcome(status=RunStatus.SUCCEEDED, response={"deep": deep}))

    page = unescape(shown.client().get("/runs/0002").text)

    assert "[null, true]" in page


def test_a_timing_that_is_already_so_has_no_empty_patch(shown: ShownFleet) -> None:
    page = shown.client().get("/schedules/queue-depth/default?timing=5m").text

    assert 'id="patch"' not in page
    assert "Nothing would change" in page
