"""The page Now, and what every page has: safe headers, static files, forms with their way back."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.dashboard.conftest import ShownFleet, find_notice_key
from tests.support.asgi_client import AsgiClient

from herdbeat.dashboard.render import load_static_files, static_version
from herdbeat.domain.records import ScheduleRecord
from herdbeat.store.reader import Filter


def find_record(shown: ShownFleet, target: str, name: str) -> ScheduleRecord:
    with shown.gateway.open() as handle:
        (record,) = handle.require_reader().schedules(Filter(target=target, name=name, limit=1))
    return record


def test_the_page_says_what_fails_and_that_no_scheduler_runs(shown: ShownFleet) -> None:
    page = shown.client().get("/")

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "The scheduler is not running" in page.text
    assert 'href="/schedules/triage/issues"' in page.text
    assert "it broke" in page.text


def test_a_quarantined_schedule_is_listed_with_its_reason_and_its_way_out(shown: ShownFleet, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db", isolation_level=None)) as ledger:
        ledger.execute("UPDATE schedule SET quarantine = 'its calendar <cannot> be read' WHERE name = 'issues'")

    page = shown.client().get("/")
    group = page.text.partition("will not run")[2]

    assert "quarantined: its calendar &lt;cannot&gt; be read" in group
    assert 'name="action" value="reset"' in group


def test_a_page_needs_no_inline_style_or_script(shown: ShownFleet) -> None:
    page = shown.client().get("/")

    policy = page.headers["content-security-policy"]
    assert "'unsafe-inline'" not in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"\sstyle=|<style|\son\w+=", page.text)
    assert re.findall(r"<script[^>]*>", page.text) == [
        f'<script type="module" src="/static/{static_version()}/main.js">'
    ]


def test_static_files_are_kept_by_their_content_and_an_old_address_is_not(shown: ShownFleet) -> None:
    current = shown.client().get(f"/static/{static_version()}/herdbeat.css")
    old = shown.client().get("/static/000000000000/herdbeat.css")
    missing = shown.client().get(f"/static/{static_version()}/..%2Fapp.py")

    assert (current.status, "immutable" in current.headers["cache-control"]) == (200, True)
    assert (old.status, old.headers["cache-control"]) == (200, "no-store")
    assert missing.status == 404


def test_the_scripts_are_small() -> None:
    import gzip

    scripts = b"".join(file.content for name, file in load_static_files().items() if name.endswith(".js"))

    assert len(gzip.compress(scripts)) < 15_000


def test_a_pause_is_shown_with_its_command_and_undone_once(shown: ShownFleet) -> None:
    answer = shown.submit("/actions/schedules", action="pause", name="triage/issues", **{"for": "1h"}, return_to="/")
    page = shown.follow(answer)

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "triage/issues paused." in page.text
    assert "herdbeat pause triage/issues --until 2026-03-26T14:04:00Z" in page.text
    assert find_record(shown, "triage", "issues").paused is True

    key = find_notice_key(page)
    undone = shown.follow(shown.submit("/actions/undo", notice=key))
    again = shown.follow(shown.submit("/actions/undo", notice=key))

    assert "1 schedule restored" in undone.text
    assert find_record(shown, "triage", "issues").paused is False
    assert "nothing to undo" in again.text


def test_an_undo_leaves_alone_what_was_paused_before(shown: ShownFleet) -> None:
    shown.submit("/actions/schedules", action="pause", name="triage/standup", reason="holiday")

    page = shown.follow(shown.submit("/actions/schedules", action="pause", name=["triage/issues", "triage/standup"]))
    shown.submit("/actions/undo", notice=find_notice_key(page))

    assert find_record(shown, "triage", "issues").paused is False
    assert find_record(shown, "triage", "standup").paused is True


def test_a_form_from_another_site_or_without_its_token_changes_nothing(show: Callable[[str], ShownFleet]) -> None:
    shown = show("server: { public_url: https://beat.example.com }")
    token = shown.token("operate")
    browser = AsgiClient(
        app=shown.app,
        host="beat.example.com",
        peer="192.0.2.7",
        headers={"cookie": f"herdbeat_session={token}", "origin": "https://beat.example.com"},
    )

    without = shown.submit("/actions/schedules", browser, action="disable", name="triage/issues")
    browser.headers["origin"] = "https://evil.example.com"
    foreign = shown.submit("/actions/schedules", browser, action="disable", name="triage/issues")
    browser.headers["origin"] = "https://beat.example.com"
    csrf = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/").text)
    assert csrf is not None
    own = shown.submit("/actions/schedules", browser, action="disable", name="triage/issues", csrf_token=csrf[1])

    assert (without.status, foreign.status, own.status) == (403, 403, 303)
    assert find_record(shown, "triage", "issues").disabled_by == "human:token:ci"


def test_a_visitor_without_credentials_is_asked_to_sign_in(show: Callable[[str], ShownFleet]) -> None:
    shown = show("server: { public_url: https://beat.example.com }")
    browser = AsgiClient(app=shown.app, host="beat.example.com", headers={"origin": "https://beat.example.com"})

    answer = browser.get("/")
    form = browser.get("/signin")
    wrong = shown.submit("/signin", browser, token="guess")
    right = shown.submit("/signin?return_to=/runs", browser, token=shown.token("read"))

    assert (answer.status, answer.headers["location"]) == (303, "/signin?return_to=/")
    assert (form.status, "pets" in form.text) == (200, False)
    assert (wrong.status, "unknown, expired or revoked" in wrong.text) == (401, True)
    assert (right.status, right.headers["location"]) == (303, "/runs")
    assert "httponly" in right.headers["set-cookie"].lower()


def test_a_form_never_leads_to_another_site(shown: ShownFleet) -> None:
    answers = [
        shown.submit("/actions/schedules", action="pause", name="triage/issues", return_to=path)
        for path in ("//evil.example.com", "https://evil.example.com", "/\\evil.example.com")
    ]

    assert [each.headers["location"] for each in answers] == ["/", "/", "/"]


def test_a_reader_sees_no_buttons_and_cannot_use_them(show: Callable[[str], ShownFleet]) -> None:
    shown = show("")
    reader = shown.bearer("read")

    page = reader.get("/")
    answer = shown.submit("/actions/schedules", reader, action="pause", name="triage/issues")

    assert "/actions/schedules" not in page.text
    assert find_record(shown, "triage", "issues").paused is False
    assert answer.status == 303


def test_theme_and_zone_are_rendered_by_the_server(shown: ShownFleet) -> None:
    saved = shown.submit("/preferences", theme="dark", zone="utc", return_to="/")
    page = shown.client().get("/", cookie="herdbeat_theme=dark; herdbeat_zone=utc; herdbeat_keys=off")
    fleet = shown.client().get("/")

    assert saved.status == 303
    assert 'data-theme="dark"' in page.text
    assert 'data-keys="off"' in page.text
    assert "13:04:00 UTC" in page.text
    assert "14:04:00 CET" in fleet.text


def test_under_a_base_path_every_link_carries_it(show: Callable[[str], ShownFleet]) -> None:
    shown = show("server: { base_path: /beat }")
    client = shown.bearer("read", peer="127.0.0.1")

    page = client.get("/beat/")

    assert page.status == 200
    links = re.findall(r'(?:href|action|src|data-open)="(/[^"]*)"', page.text)
    assert links
    assert [each for each in links if not each.startswith("/beat/")] == []
