"""What each route does, and how it refuses: asked over HTTP, and checked in the ledger."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest
from tests.server.conftest import OWN_ORIGIN, ServedFleet
from tests.support.asgi_client import AsgiClient

from herdbeat.bootstrap.server_spec import open_server_handle
from herdbeat.domain.target import EndpointSpec
from herdbeat.error_codes import Code
from herdbeat.server.app import create_app
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor, DeleteSchedule, RevokeToken, StaleVersion
from herdbeat.service.queries.details import find_target
from herdbeat.service.queries.selectors import FoundCount
from herdbeat.store.reader import Filter


def test_an_action_is_recorded_with_its_reason_and_repeating_it_changes_nothing(served: ServedFleet) -> None:
    client = served.client()
    url = "/api/v1/schedules/triage/issues"

    first = client.post(f"{url}/pause", {"for": "2h", "reason": "migration"}).json()
    again = client.post(f"{url}/pause", {"until": "2026-03-26T15:04:00Z", "reason": "migration"}).json()
    resumed = client.post(f"{url}/resume", {}).json()

    assert (first["changed"], again["changed"], resumed["changed"]) == (1, 0, 1)
    assert first["items"][0]["after"]["until"] == "2026-03-26T15:04:00Z"
    assert first["served"] is False  # no node runs it: it takes effect at the next start


@pytest.mark.parametrize(
    ("action", "body", "field", "value"),
    [
        ("disable", {}, "disabled_by", "human:local"),
        ("skip", {"count": 3}, "skips", 3),
        ("hints", {"every": "1m", "ttl": "1h"}, "paused", False),
        ("reset", {}, "failures", 0),
    ],
)
def test_every_action_reaches_the_ledger(
    served: ServedFleet, action: str, body: dict[str, object], field: str, value: object
) -> None:
    answer = served.client().post(f"/api/v1/schedules/triage/standup/{action}", body)

    assert answer.status == 200
    with served.gateway.open() as handle:
        (record,) = handle.require_reader().schedules(Filter(target="triage", name="standup", limit=1))
    assert getattr(record, field) == value


def test_the_answer_to_a_hint_says_what_becomes_of_it(served: ServedFleet) -> None:
    client, path = served.client(), "/api/v1/schedules/queue-depth/extra"
    client.post("/api/v1/schedules", {"schedule": "queue-depth/extra", "every": "1h", "min_interval": "1m"})
    agent = served.bearer("agent:queue-depth")
    facts = ("effective", "clamped_to", "shadowed_by")

    answers = [
        sender.post(f"{path}/hints", body).json()["items"][0]["after"]
        for sender, body in (
            (client, {"every": "5m", "ttl": "1h"}),
            (client, {"every": "1s", "ttl": "1h"}),
            (agent, {"every": "10m", "ttl": "1h"}),
        )
    ]
    logged = client.get("/api/v1/changes?selector=queue-depth/extra").json()["items"]

    assert [tuple(each[name] for name in facts) for each in answers] == [
        ("5m", None, None),
        ("1m", "1m", None),
        (None, None, "human:local"),
    ]
    assert not any(name in (each["after"] or {}) for each in logged for name in facts)


def test_a_hint_is_listed_and_removed(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/triage/issues/hints"

    client.post(url, {"every": "1m", "ttl": "1h", "reason": "watch"})
    before = client.get(url).json()["items"]
    cleared = client.delete(url).json()

    assert [(each["every"], each["state"], each["origin"]) for each in before] == [("1m", "active", "human:local")]
    assert cleared["changed"] == 1


def test_one_hint_is_removed_by_its_id_and_the_others_stay(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/triage/issues/hints"
    client.post(url, {"every": "1m", "ttl": "1h"})
    client.post(url, {"at": "2026-03-27T00:00:00Z"})
    first, second = client.get(url).json()["items"]

    unknown = client.delete(f"{url}/999999").json()
    cleared, again = (client.delete(f"{url}/{first['id']}").json() for _ in range(2))

    left = [each["id"] for each in client.get(url).json()["items"] if each["state"] in ("active", "shadowed")]
    assert [each["changed"] for each in (unknown, cleared, again)] == [0, 1, 0]
    assert left == [second["id"]]


def test_a_run_now_is_accepted_once_per_idempotency_key(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/triage/standup/runs"

    first = client.post(url, {}, idempotency_key="deploy-7")
    again = client.post(url, {}, idempotency_key="deploy-7")
    by_body = client.post(url, {"dedup_id": "deploy-7"})
    other = client.post(url, {}, idempotency_key="deploy-8")

    assert [each.status for each in (first, again, by_body, other)] == [202, 200, 200, 202]
    assert again.json()["beat"] == by_body.json()["beat"] == first.json()["beat"] != other.json()["beat"]
    assert first.headers["location"] == f"/api/v1/beats/{first.json()['beat']}"
    assert again.json()["deduplicated"] is True


def test_a_key_that_comes_with_another_request_is_refused(served: ServedFleet) -> None:
    """It was answered with the result of the first request, whatever the second one was."""
    client = served.bearer("operate")
    new = {"schedule": "queue-depth/extra", "every": "1h"}
    first = client.post("/api/v1/schedules", new, idempotency_key="k")

    others = [
        client.post("/api/v1/schedules", {**new, "schedule": "queue-depth/other"}, idempotency_key="k"),
        client.post("/api/v1/schedules", {**new, "every": "2h"}, idempotency_key="k"),
        client.post(
            "/api/v1/targets", {"name": "t", "url": "https://example.com/", "every": "1h"}, idempotency_key="k"
        ),
        client.post("/api/v1/runs/0001/retry", {}, idempotency_key="k"),
        client.post("/api/v1/schedules/triage/standup/runs", {}, idempotency_key="k"),
    ]
    again = client.post("/api/v1/schedules", new, idempotency_key="k")

    assert (first.status, again.status, again.json()) == (201, 201, first.json())
    assert {(each.status, each.json()["code"]) for each in others} == {(409, "key_reused")}
    assert client.get("/api/v1/targets/t").status == 404


def test_a_key_with_another_prompt_does_not_pass_for_the_first_run(served: ServedFleet) -> None:
    client, url = served.bearer("operate"), "/api/v1/schedules/triage/standup/runs"

    first = client.post(url, {"reason": "deploy 7"}, idempotency_key="k")
    again = client.post(url, {"reason": "deploy 7"}, idempotency_key="k")
    other = client.post(url, {"reason": "deploy 8"}, idempotency_key="k")

    assert [each.status for each in (first, again, other)] == [202, 200, 409]
    assert other.json()["code"] == "key_reused"


@pytest.mark.parametrize("is_renamed", [False, True])
def test_the_key_of_another_token_reveals_nothing(served: ServedFleet, is_renamed: bool) -> None:
    """Also if that token was revoked, and a new one has its name."""
    mine = served.bearer("operate", "ci")
    new, run = {"schedule": "queue-depth/extra", "every": "1h"}, "/api/v1/schedules/triage/standup/runs"
    made, started = (
        mine.post(*each, idempotency_key="k" + each[0]) for each in (("/api/v1/schedules", new), (run, {}))
    )

    if is_renamed:
        served.gateway.deliver(Actor(name="human:you"), RevokeToken(name="ci"))
    theirs = served.bearer("operate", "ci" if is_renamed else "other")
    again = theirs.post("/api/v1/schedules", new, idempotency_key="k/api/v1/schedules")
    refused = theirs.post(run, {}, idempotency_key=f"k{run}")

    assert (made.status, started.status) == (201, 202)
    assert (again.status, again.json()["code"]) == (409, "conflict")
    assert (refused.status, refused.json()["code"]) == (409, "key_reused")
    assert started.json()["beat"] not in refused.text


def test_a_refused_request_may_be_repeated_with_its_key(served: ServedFleet) -> None:
    client = served.bearer("operate")
    url = "/api/v1/runs/0001/retry"
    assert client.post(url, {}).status == 202

    refused = client.post(url, {}, idempotency_key="k")
    again = client.post(url, {}, idempotency_key="k")

    assert (refused.status, again.status) == (409, 409)
    assert again.json()["code"] == "conflict"


def _meddle(served: ServedFleet, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], object]) -> None:
    """Let somebody else change something between the moment that the next edit reads, and the moment it writes."""
    deliver, waiting = served.gateway.deliver, [meddle]

    def deliver_late(*args: object) -> object:
        if waiting:
            waiting.pop()()
        return deliver(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(served.gateway, "deliver", deliver_late)


def test_two_edits_of_different_keys_at_the_same_moment_both_stay(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wrote the whole schedule as it had read it, without the change of the first."""
    client, path = served.client(), "/api/v1/schedules/queue-depth/extra"
    client.post("/api/v1/schedules", {"schedule": "queue-depth/extra", "every": "1h"})
    _meddle(served, monkeypatch, lambda: client.patch(path, {"tags": ["mine"]}))

    edited = client.patch(path, {"every": "2h"})

    shown = client.get(path).json()
    assert edited.status == 200
    assert (shown["trigger"]["every"], shown["tags"]) == ("2h", ["mine"])


def test_a_schedule_that_is_disabled_while_it_is_edited_stays_disabled(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = served.client(), "/api/v1/schedules/queue-depth/extra"
    client.post("/api/v1/schedules", {"schedule": "queue-depth/extra", "every": "1h"})
    _meddle(served, monkeypatch, lambda: client.post(f"{path}/disable", {}))

    edited = client.patch(path, {"every": "2h"})

    shown = client.get(path).json()
    assert edited.status == 200
    assert (shown["trigger"]["every"], shown["enabled"]) == ("2h", False)


def test_an_edit_that_names_a_version_loses_against_one_that_was_faster(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = served.client(), "/api/v1/schedules/queue-depth/extra"
    client.post("/api/v1/schedules", {"schedule": "queue-depth/extra", "every": "1h"})
    seen = client.get(path).headers["etag"]
    _meddle(served, monkeypatch, lambda: client.patch(path, {"tags": ["mine"]}))

    edited = client.patch(path, {"every": "2h"}, if_match=seen)

    shown = client.get(path).json()
    assert (edited.status, edited.json()["code"]) == (412, "stale_version")
    assert (shown["trigger"]["every"], shown["tags"]) == ("1h", ["mine"])


def test_two_edits_of_an_endpoint_at_the_same_moment_both_stay(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = served.client(), "/api/v1/targets/probe"
    client.post("/api/v1/targets", {"name": "probe", "url": "https://example.com/a", "every": "1h"})
    _meddle(served, monkeypatch, lambda: client.patch(path, {"method": "PUT"}))

    edited = client.patch(path, {"url": "https://example.com/b"})

    with served.gateway.open() as handle:
        spec = find_target(handle.require_reader(), "probe", handle.now).target.spec
    assert isinstance(spec, EndpointSpec)
    assert edited.status == 200
    assert (spec.url, spec.method) == ("https://example.com/b", "PUT")


def test_a_run_is_retried_and_one_that_has_ended_is_not_cancelled(served: ServedFleet) -> None:
    client = served.client()

    retried = client.post("/api/v1/runs/0001/retry", {})
    cancelled = client.post("/api/v1/runs/0001/cancel", {})
    unknown = client.post("/api/v1/runs/zzzz/cancel", {})

    assert (retried.status, retried.json()["items"][0]["attempt"]) == (202, 2)
    assert (cancelled.status, cancelled.json()["code"]) == (409, "conflict")
    assert unknown.status == 404


def test_a_schedule_is_created_changed_and_deleted(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/queue-depth/nightly"
    body = {"schedule": "queue-depth/nightly", "cron": "0 3 * * *", "timezone": "UTC", "tags": ["night"]}

    created = client.post("/api/v1/schedules", body)
    etag = client.get(url).headers["etag"]
    changed = client.patch(url, {"cron": "0 4 * * *"}, if_match=etag)
    stale = client.patch(url, {"cron": "0 5 * * *"}, if_match=etag)
    shown = client.get(url).json()
    deleted = client.delete(url)

    assert (created.status, created.headers["location"]) == (201, url)
    assert (changed.status, stale.status, stale.json()["code"]) == (200, 412, "stale_version")
    assert (shown["trigger"]["expression"], shown["tags"], shown["timezone"]) == ("0 4 * * *", ["night"], "UTC")
    assert shown["written_at"] == "api"
    assert (deleted.status, client.get(url).status) == (200, 404)


def test_policies_of_a_schedule_are_changed_one_by_one(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/queue-depth/often"
    client.post("/api/v1/schedules", {"schedule": "queue-depth/often", "every": "1m", "timeout": "20s", "tags": ["a"]})

    changed = client.patch(url, {"max_interval": "5m", "timeout": "30s"})

    shown = client.get(url).json()
    assert changed.status == 200
    assert (shown["policies"]["timeout"]["value"], shown["policies"]["max_interval"]["value"]) == ("30s", "5m")
    assert (shown["tags"], shown["trigger"]["every"]) == (["a"], "1m")


def test_what_a_file_defines_is_changed_there(served: ServedFleet) -> None:
    client = served.client()

    edited = client.patch("/api/v1/schedules/triage/issues", {"every": "1m"})
    deleted = client.delete("/api/v1/schedules/triage/issues")

    assert [(each.status, each.json()["code"]) for each in (edited, deleted)] == [(409, "managed_by_config")] * 2
    assert (edited.json()["file"], edited.json()["line"]) == ("herdbeat.yaml", 10)
    assert "herdbeat.yaml:" in edited.json()["detail"]


def test_an_endpoint_is_created_with_its_schedule_and_deleted(served: ServedFleet) -> None:
    client = served.client()
    body = {"name": "ping", "url": "https://example.com/ping", "every": "10m", "reason": "try"}

    created = client.post("/api/v1/targets", body)
    shown = client.get("/api/v1/targets/ping").json()
    deleted = client.delete("/api/v1/targets/ping")

    assert created.status == 201
    assert (shown["kind"], [each["when"] for each in shown["schedules"]]) == ("endpoint", ["every 10m"])
    assert (deleted.status, client.get("/api/v1/targets/ping").status) == (200, 404)


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("schedules", {"schedule": "queue-depth/x", "every": "5.5m"}, ("invalid_interval", "/every", "5.5m")),
        ("schedules", {"schedule": "triage/x", "cron": "61 * * * *"}, ("invalid_cron", "/cron", "61 * * * *")),
        (
            "schedules",
            {"schedule": "backup/x", "every": "1h", "timezone": "Mars"},
            ("invalid_timezone", "/timezone", "Mars"),
        ),
        (
            "schedules",
            {"schedule": "backup/x", "every": "1h", "retry": {"attempts": -1}},
            ("*", "/retry/attempts", None),
        ),
        ("targets", {"name": "probe", "url": "ftp://x/", "every": "1h"}, ("*", "/url", "ftp://x/")),
    ],
)
def test_a_wrong_value_is_said_in_the_words_of_a_file_with_its_place(
    served: ServedFleet, path: str, body: dict[str, object], expected: tuple[str, str, str | None]
) -> None:
    """The description says 422 with the code and the field. The answer was 400 `usage` without either."""
    answer = served.client().post(f"/api/v1/{path}", body)

    problem = answer.json()
    assert answer.status == 422, answer.text
    assert problem["code"] == expected[0] or expected[0] == "*"
    assert [(each["pointer"], each["value"]) for each in problem["errors"]] == [expected[1:]]
    assert problem["detail"]
    assert problem["hint"]
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_problem_names_the_field(served: ServedFleet) -> None:
    answer = served.client().post("/api/v1/schedules/triage/issues/skip", {"count": "many", "cuont": 1})

    problem = answer.json()
    assert (answer.status, problem["code"]) == (422, "invalid_value")
    assert {each["pointer"] for each in problem["errors"]} == {"/count", "/cuont"}
    assert problem["instance"] == "/api/v1/schedules/triage/issues/skip"
    assert served.client().get(problem["type"]).status == 200


def test_many_schedules_are_changed_only_if_as_many_as_expected(served: ServedFleet) -> None:
    client = served.client()
    body = {"select": {"tag": "vendor-x"}, "action": "pause", "args": {"for": "1h", "reason": "outage"}}

    looked = client.post("/api/v1/bulk", {**body, "dry_run": True})
    refused = client.post("/api/v1/bulk", {**body, "expect": 3})
    unchanged = client.get("/api/v1/schedules?state=paused").json()["items"]
    done = client.post("/api/v1/bulk", {**body, "expect": 2})

    assert (looked.json()["count"], looked.json()["sample"]) == (2, ["triage/issues", "queue-depth"])
    assert (refused.status, unchanged) == (409, [])
    assert (done.status, done.json()["changed"]) == (200, 2)


def test_a_page_leads_to_the_next_until_the_last(served: ServedFleet) -> None:
    client, seen, url = served.client(), list[str](), "/api/v1/schedules?limit=1"

    while url:
        answer = client.get(url)
        seen += [each["schedule"] for each in answer.json()["items"]]
        cursor = answer.json()["next_cursor"]
        assert (cursor is None) is ("link" not in answer.headers)
        assert answer.json()["has_more"] is (cursor is not None)
        url = f"/api/v1/schedules?limit=1&cursor={cursor}" if cursor else ""

    assert seen == ["triage/issues", "triage/standup", "queue-depth", "backup"]


def test_the_link_to_the_next_page_is_the_address_that_others_use(serve: Callable[[str], ServedFleet]) -> None:
    served = serve('server: { public_url: "https://example.com/ops", base_path: /ops }')
    program = served.bearer("read")

    paths = ("/api/v1/schedules?limit=1", "/ops/api/v1/schedules?limit=1")
    links = [program.get(path).headers["link"] for path in paths]

    assert set(links) == {'<https://example.com/ops/api/v1/schedules?limit=1&cursor=0001>; rel="next"'}


def test_a_badge_shows_the_state_of_a_schedule_and_needs_the_right_to_look(served: ServedFleet) -> None:
    badge = served.client().get("/badge/triage/issues.svg")
    unknown = served.client().get("/badge/triage/nothing.svg")
    stranger = AsgiClient(app=served.app, peer="192.0.2.7").get("/badge/triage/issues.svg")

    assert (badge.status, badge.headers["content-type"]) == (200, "image/svg+xml")
    assert ET.fromstring(badge.body).get("aria-label") == "triage/issues: failing"
    assert (unknown.status, stranger.status) == (404, 401)


@pytest.mark.parametrize("path", ["schedules", "runs", "beats", "changes", "targets"])
def test_a_list_comes_as_json_lines_and_as_csv(served: ServedFleet, path: str) -> None:
    client = served.client()

    items = client.get(f"/api/v1/{path}").json()["items"]
    lines = client.get(f"/api/v1/{path}", accept="application/jsonl")
    table = client.get(f"/api/v1/{path}?format=csv")

    assert len(lines.text.splitlines()) == len(items)
    assert table.text.splitlines()[0].split(",") == list(items[0])
    assert table.headers["content-type"].startswith("text/csv")
    assert client.get(f"/api/v1/{path}", accept="image/png").status == 406


def test_a_cell_that_looks_like_a_formula_is_no_formula(served: ServedFleet) -> None:
    client = served.client()
    client.post("/api/v1/schedules/triage/issues/pause", {"reason": '=HYPERLINK("http://evil.example")'})

    cells = client.get("/api/v1/schedules?format=csv").text

    assert "'=HYPERLINK" in cells


def test_the_files_are_planned_and_applied_as_they_were_planned(served: ServedFleet) -> None:
    client, file = served.client(), served.folder / "herdbeat.yaml"
    _edit(file, "interval: 5m", "interval: 7m")
    planned = client.post("/api/v1/config/plan")

    _edit(file, "interval: 7m", "interval: 8m")
    stale = client.post("/api/v1/config/apply", {}, if_match=planned.headers["etag"])
    fresh = client.post("/api/v1/config/plan")
    applied = client.post("/api/v1/config/apply", {}, if_match=fresh.headers["etag"])

    assert planned.json()["changed"] == 1
    assert (stale.status, applied.status) == (412, 200)
    assert client.get("/api/v1/schedules/triage/issues").json()["when"] == "every 8m"


def test_a_server_on_a_machine_without_the_files_plans_and_applies_nothing(served: ServedFleet) -> None:
    spec = replace(served.spec, has_files=False, config="")
    gateway = FleetGateway(spec, open_server_handle(spec, served.clock, {}), {})
    client = AsgiClient(app=create_app(gateway), headers={"origin": OWN_ORIGIN})

    answers = [
        client.get("/api/v1/config"),
        client.post("/api/v1/config/plan", {"agents": [{"name": "evil", "runtime": "command", "command": ["id"]}]}),
        client.post("/api/v1/config/apply", {}, if_match="*"),
    ]
    gateway.close()

    assert [(each.status, each.json()["code"]) for each in answers] == [(409, "conflict")] * 3


def test_wrong_files_change_nothing_and_every_mistake_is_listed(served: ServedFleet) -> None:
    _edit(served.folder / "herdbeat.yaml", "interval: 5m", "interval: 5x")

    answer = served.client().post("/api/v1/config/plan")

    assert answer.status == 422
    assert answer.json()["errors"][0]["pointer"] == "/agents/0/schedules/issues/interval"


def test_the_log_of_a_run_is_plain_text(served: ServedFleet) -> None:
    answer = served.client().get("/api/v1/runs/0001/log")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_statistics_count_outcomes_and_refuse_an_unknown_window(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/triage/issues/stats"

    stats = client.get(f"{url}?window=7d").json()

    assert (stats["beats"], stats["runs"], stats["success_rate"]) == ({"ran": 1}, {"failed": 1}, 0.0)
    assert (stats["nominal_interval_s"], stats["is_complete"]) == (300.0, True)
    assert client.get(f"{url}?window=9y").status == 400


def test_health_says_that_no_node_runs_and_readiness_that_the_ledger_answers(served: ServedFleet) -> None:
    health, ready = served.client().get("/healthz"), served.client().get("/readyz")

    assert (health.status, health.json()) == (503, {"ok": False, "reason": "not_running"})
    assert ready.status == 200


def test_the_readable_page_of_the_api_has_the_allowed_values_and_an_answer(served: ServedFleet) -> None:
    """A type was the name of a class of ours, such as CostGrouping, and nothing said what comes back."""
    page = served.client().get("/api/docs").text

    assert "<td>schedule | target | day</td>" in page
    assert "CostGrouping" not in page
    assert "&#34;next_cursor&#34;" in page


def test_the_api_page_names_every_path_and_needs_nothing_from_elsewhere(served: ServedFleet) -> None:
    page = served.client().get("/api/docs").text
    document = served.client().get("/api/v1/openapi.json").json()

    assert all(path in page for path in document["paths"])
    assert "<script" not in page
    assert "http://" not in page.replace("http://127.0.0.1", "")
    assert AsgiClient(app=served.app, peer="192.0.2.7").get("/api/docs").status == 401


def test_a_time_without_an_offset_is_refused(served: ServedFleet) -> None:
    answer = served.client().get("/api/v1/beats?since=2026-03-26T13:00:00")

    assert answer.status == 422


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_pause_is_planned_listed_and_cancelled(served: ServedFleet) -> None:
    client = served.client()

    body = {"select": {"names": ["triage"]}, "from": "2026-03-27T01:00:00Z", "for": "2h", "reason": "database"}
    planned = client.post("/api/v1/pauses", body)
    listed = client.get("/api/v1/pauses").json()["items"]
    schedule = client.get("/api/v1/schedules/triage/issues").json()
    cancelled = client.delete(f"/api/v1/pauses/{planned.json()['id']}")

    assert planned.status == 201
    assert [(each["selection"], each["until"], each["state"]) for each in listed] == [
        ("triage", "2026-03-27T03:00:00Z", "planned")
    ]
    assert [each["reason"] for each in schedule["planned_pauses"]] == ["database"]
    assert cancelled.status == 200
    assert client.get("/api/v1/pauses").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"select": {"names": ["nobody"]}, "from": "2026-03-27T01:00:00Z", "for": "2h"}, 404),
        ({"select": {"names": ["triage"]}, "from": "2026-03-27T01:00:00Z"}, 400),
        ({"select": {"names": ["triage"]}, "from": "2020-03-27T01:00:00Z", "for": "2h"}, 400),
        ({"select": {"names": ["triage"]}, "from": "2026-03-27", "for": "2h"}, 422),
    ],
)
def test_a_pause_that_makes_no_sense_is_refused(served: ServedFleet, body: dict[str, object], status: int) -> None:
    assert served.client().post("/api/v1/pauses", body).status == status


def test_an_episode_is_acknowledged_and_snoozed_by_the_api(served: ServedFleet) -> None:
    client = served.client()

    acked = client.post("/api/v1/notifications/ack", {"subjects": ["backup"], "reason": "known"})
    snoozed = client.post("/api/v1/notifications/snooze", {"for": "2h"})
    tested = client.post("/api/v1/notifications/test/nobody", {})

    assert (acked.status, acked.json(), snoozed.status, tested.status) == (200, {"changed": 0}, 200, 404)


def test_a_sorted_list_is_paged_from_schedule_to_schedule(served: ServedFleet) -> None:
    client = served.client()

    def read(path: str) -> tuple[list[str], str | None]:
        answer = client.get(path).json()
        return [each["schedule"] for each in answer["items"]], answer["next_cursor"]

    everything, _ = read("/api/v1/schedules?sort=name")
    first, cursor = read("/api/v1/schedules?sort=name&limit=2")
    rest, end = read(f"/api/v1/schedules?sort=name&limit=200&cursor={cursor}")

    assert everything == sorted(everything)
    assert (first + rest, end) == (everything, None)
    assert len(everything) > 2


@pytest.mark.parametrize("sort", ["name", "next", "last", "failures", "cost", "pace"])
def test_every_order_has_the_same_schedules(served: ServedFleet, sort: str) -> None:
    client = served.client()
    added = client.get("/api/v1/schedules?q=triage").json()["items"]

    by_words = client.get(f"/api/v1/schedules?q=triage&sort={sort}").json()["items"]
    by_filter = client.get(f"/api/v1/schedules?target=triage&sort={sort}").json()["items"]

    assert {each["schedule"] for each in by_words} == {each["schedule"] for each in added}
    assert [each["schedule"] for each in by_words] == [each["schedule"] for each in by_filter]


def test_a_cursor_of_a_schedule_that_is_gone_is_refused_with_the_way_on(served: ServedFleet) -> None:
    answer = served.client().get("/api/v1/schedules?sort=name&cursor=zzzz")

    assert (answer.status, answer.json()["code"]) == (400, "usage")
    assert "first page" in answer.json()["hint"]


def test_an_unknown_order_is_refused_with_those_that_exist(served: ServedFleet) -> None:
    answer = served.client().get("/api/v1/schedules?sort=colour")

    assert answer.status == 422
    assert "failures" in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("path", ["/schedules", "/schedules?q=triage", "/schedules?target=triage", "/runs", "/beats"])
def test_a_list_is_counted_only_for_those_who_ask(served: ServedFleet, path: str) -> None:
    client = served.client()
    whole = client.get(f"/api/v1{path}{'&' if '?' in path else '?'}limit=200").json()

    counted = client.get(f"/api/v1{path}{'&' if '?' in path else '?'}limit=1&count=approx").json()

    assert "count" not in whole
    assert (counted["count"], counted["count_is_exact"]) == (len(whole["items"]), True)


def test_a_count_beyond_ten_thousand_says_that_it_is_not_exact() -> None:
    assert FoundCount.up_to_limit(10_000) == FoundCount(number=10_000, is_exact=True)
    assert FoundCount.up_to_limit(10_001) == FoundCount(number=10_000, is_exact=False)


def test_durations_come_as_text_and_as_seconds(served: ServedFleet) -> None:
    client, url = served.client(), "/api/v1/schedules/triage/issues"
    client.post(f"{url}/hints", {"every": "1m", "ttl": "1h"})

    shown, hint = client.get(url).json(), client.get(f"{url}/hints").json()["items"][0]
    listed = client.get("/api/v1/schedules?q=triage/issues").json()["items"][0]

    assert shown["interval_s"] == 300
    assert (hint["every"], hint["every_s"]) == ("1m", 60)
    assert (listed["pace"]["every"], listed["pace"]["every_s"]) == ("1m", 60)
    assert client.get("/api/v1/schedules/triage/standup").json()["interval_s"] is None


def test_a_read_of_more_than_a_second_is_answered_as_a_problem(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.gateway.close()
    with monkeypatch.context() as patch:
        patch.setattr("herdbeat.server.gateway.MAX_READ", timedelta(0))
        patch.setattr("herdbeat.store.reader.PROGRESS_STEPS", 1)
        stopped = served.client().get("/api/v1/beats")
    answered = served.client().get("/api/v1/beats")

    assert (stopped.status, stopped.json()["code"]) == (503, "read_timeout")
    assert "shorter period" in stopped.json()["hint"]
    assert answered.status == 200  # the reader that was stopped is gone


def test_a_schedule_that_changed_between_reading_and_deleting_stays(served: ServedFleet) -> None:
    """The change comes after the route has compared the versions: the node compares them once more."""
    new = {"schedule": "triage/extra", "every": "1h"}
    served.client().post("/api/v1/schedules", new)

    with pytest.raises(StaleVersion):
        served.gateway.deliver(Actor(name="human:you"), DeleteSchedule(target="triage", name="extra", expected="old"))

    assert served.client().get("/api/v1/schedules/triage/extra").status == 200
    assert (StaleVersion.code, StaleVersion.http_status) == (Code.STALE_VERSION, 412)


def test_an_endpoint_that_somebody_else_changed_is_neither_changed_nor_deleted(served: ServedFleet) -> None:
    client, path = served.client(), "/api/v1/targets/probe"
    client.post("/api/v1/targets", {"name": "probe", "url": "https://example.com/a", "every": "1h"})
    seen = client.get(path).headers["etag"]

    mine = client.patch(path, {"url": "https://example.com/b"}, if_match=seen)
    theirs = client.patch(path, {"url": "https://example.com/c"}, if_match=seen)
    gone = client.delete(path, if_match=seen)
    with pytest.raises(StaleVersion):
        served.gateway.deliver(Actor(name="human:you"), DeleteSchedule(target="probe", expected="old"))

    assert (mine.status, theirs.status, gone.status) == (200, 412, 412), mine.text
    assert theirs.json()["code"] == "stale_version"
    assert client.delete(path, if_match=client.get(path).headers["etag"]).status == 200


def test_a_target_whose_last_schedule_was_deleted_is_still_there(served: ServedFleet) -> None:
    """Its page, and every request about it, ended in a failure of the server."""
    client = served.client()
    client.post("/api/v1/targets", {"name": "probe", "url": "https://example.com/a", "every": "1h"})
    client.delete("/api/v1/schedules/probe/default")

    shown = client.get("/api/v1/targets/probe")
    printed = served.cli().run("show", "probe", "--json")
    screen = served.cli().run("show", "probe")
    added = client.post("/api/v1/schedules", {"schedule": "probe/again", "every": "2h"})

    assert (shown.status, shown.json()["schedules"]) == (200, [])
    assert printed.json() == shown.json()
    assert "probe" in screen.out
    assert added.status == 201, added.text


def test_an_endpoint_is_created_once_for_an_idempotency_key(served: ServedFleet) -> None:
    new = {"name": "pets", "url": "https://example.com/", "every": "1h"}

    first, again = (served.client().post("/api/v1/targets", new, idempotency_key="k-1") for _ in range(2))

    assert (first.status, again.status) == (201, 201)
    assert first.json()["subject"] == again.json()["subject"]


def test_what_was_made_is_found_at_its_location_also_under_a_base_path(serve: Callable[[str], ServedFleet]) -> None:
    served = serve("server: { base_path: /ops }")
    program = served.bearer("operate")

    made = program.post("/ops/api/v1/schedules", {"schedule": "queue-depth/extra", "every": "1h"})

    assert made.headers["location"] == "/ops/api/v1/schedules/queue-depth/extra"
    assert program.get(made.headers["location"]).status == 200


def test_a_text_that_is_no_utf_8_does_not_hide_the_rows_beside_it(served: ServedFleet) -> None:
    """Another program has written into the ledger. The readers that were open before find it, too."""
    before = served.client().get("/api/v1/schedules").json()["items"]
    with closing(sqlite3.connect(served.folder / ".herdbeat" / "herdbeat.db")) as ledger:
        ledger.execute("UPDATE schedule SET paused_reason = CAST(x'61ff62' AS TEXT) WHERE id = 1")
        ledger.commit()

    answers = [served.client().get("/api/v1/schedules") for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]
    assert [len(each.json()["items"]) for each in answers] == [len(before)] * 2
    assert answers[1].json()["items"][0]["paused_reason"] == "a\N{REPLACEMENT CHARACTER}b"


ENDS_OF_TIME = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
]


@pytest.mark.parametrize("moment", ENDS_OF_TIME)
def test_a_time_at_an_end_of_the_calendar_is_no_failure(served: ServedFleet, moment: str) -> None:
    """Its offset, a zone or a duration led out of the calendar: OverflowError, a 500."""
    client, schedule = served.client(), "/api/v1/schedules/triage/standup"
    text = quote(moment)

    answers = [
        *(
            client.get(f"/api/v1/{each}={text}")
            for each in ("runs?since", "cost?since", "timeline?since", "next?start")
        ),
        *(client.get(f"{schedule}/{each}={text}") for each in ("next?from", "explain?at")),
        client.post(f"{schedule}/pause", {"until": moment}),
        client.post(f"{schedule}/hints", {"at": moment}),
        client.post(f"{schedule}/backfill", {"from": moment}),
        client.post("/api/v1/pauses", {"select": {"all": True}, "from": moment, "for": "365d"}),
        client.post("/api/v1/pauses", {"select": {"all": True}, "from": "2030-01-01T00:00:00Z", "until": moment}),
        client.post("/api/v1/preview", {"expression": "5m", "timezone": "America/New_York", "from": moment}),
        client.post("/api/v1/preview", {"expression": "@daily", "timezone": "Asia/Tokyo", "from": moment}),
        client.get(schedule),
    ]

    assert [each.text for each in answers if each.status >= 500] == []


@pytest.mark.parametrize("key", ["every", "cron", "timezone", "tags", "prompt", "url", "headers", "x"])
def test_half_of_a_surrogate_pair_in_a_definition_is_refused(served: ServedFleet, key: str) -> None:
    """The message about it could not be sent: UnicodeEncodeError, a 500."""
    client = served.client()
    new = {"name": "probe", "url": "https://example.com/", "every": "1h", key: "\ud800"}

    made = client.post("/api/v1/targets", new)
    changed = client.patch("/api/v1/schedules/triage/issues", {key: "\ud800"})

    assert (made.status, changed.status) == (422, 422)
    assert client.get("/api/v1/targets/probe").status == 404


def test_the_id_of_a_hint_that_no_ledger_can_have_is_refused(served: ServedFleet) -> None:
    body = {"select": {"names": ["triage"]}, "action": "clear_hints", "args": {"hint": 10**30}}

    assert served.client().post("/api/v1/bulk", body).status == 422
