"""Agents, sessions, work, hints, rules, timelines and logs through the API, as the command line prints them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.conftest import NOW, ServedFleet, ServedHistory
from tests.support.work_herd import open_work_herd

from herdbeat.bootstrap.config import STATE_DIR_NAME
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

PAIRS = [
    ("ack", "/attention"),
    ("sessions", "/sessions"),
    ("cost --per target", "/cost?by=target"),
    ("timeline", "/timeline"),
    ("timeline queue", "/timeline?selector=queue"),
    ("hint --list", "/hints"),
    ("hint queue --list", "/hints?selector=queue"),
    ("rules test queue", "POST /rules/test"),
    ("work --all", "/work?all=1"),
]


@pytest.mark.parametrize(("words", "path"), PAIRS, ids=[words for words, _ in PAIRS])
def test_an_answer_is_what_the_command_line_prints(history: ServedHistory, words: str, path: str) -> None:
    bodies = {"/rules/test": {"schedule": "queue"}}
    method, _, address = path.rpartition(" ")

    printed = history.cli.run(*words.split(), "--json")
    answer = history.client.send(method or "GET", f"/api/v1{address}", bodies.get(address))

    assert (printed.status, answer.status) == (0, 200), answer.text
    assert answer.json() == printed.json()
    assert answer.json().get("items") != [] or "work" in words


def test_a_backfill_lists_its_instants_and_runs_them_once_for_a_key(served: ServedFleet) -> None:
    client, path = served.client(), "/api/v1/schedules/backup/default/backfill"
    window = {"from": "2026-03-20T00:00:00Z", "until": "2026-03-22T12:00:00Z"}

    printed = served.cli().run(
        "backfill", "backup", "--from", window["from"], "--until", window["until"], "--dry-run", "--json"
    )
    listed = client.post(path, {**window, "dry_run": True})
    first = client.post(path, window, idempotency_key="march")
    again = client.post(path, window, idempotency_key="march")
    too_many = client.post(path, {"from": "2020-01-01T00:00:00Z"})

    assert listed.json() == printed.json()
    assert (first.status, first.json()["count"]) == (202, 3)
    assert again.json() == first.json()
    assert (too_many.status, too_many.json()["code"]) == (409, "conflict")
    assert len(client.get("/api/v1/beats?schedule=backup").json()["items"]) == 3


def test_the_answer_and_the_steps_of_an_agent_have_addresses_of_their_own(history: ServedHistory) -> None:
    runs = history.client.get("/api/v1/runs?schedule=tokens").json()["items"]
    answer = history.client.get(f"/api/v1/runs/{runs[0]['id']}/answer")
    steps = history.client.get(f"/api/v1/runs/{runs[0]['id']}/steps")
    queue_run = history.client.get("/api/v1/runs?schedule=queue").json()["items"][0]["id"]
    missing = history.client.get(f"/api/v1/runs/{queue_run}/answer")

    assert (answer.status, answer.json()["answer"]) == (200, "All green.")
    assert (steps.status, steps.json()["left_out"]) == (200, 0)
    assert (missing.status, missing.json()["code"]) == (404, "not_found")


def test_a_run_that_needs_a_person_is_acknowledged_once(history: ServedHistory) -> None:
    marked = history.client.get("/api/v1/attention").json()["items"]
    first = history.client.post(f"/api/v1/runs/{marked[0]['run']}/ack", {"reason": "done"})
    again = history.client.post("/api/v1/attention/ack", {"all": True})
    both = history.client.post("/api/v1/attention/ack", {"all": True, "selector": "asks"})

    assert [each["schedule"] for each in marked] == ["asks"]
    assert (first.json()["acked"], again.json()["acked"]) == (1, 0)
    assert both.status == 400
    assert history.client.get("/api/v1/attention").json() == {"items": []}


def test_an_account_at_its_limit_is_listed_and_released(history: ServedHistory) -> None:
    held = history.client.get("/api/v1/accounts").json()["items"]
    released = history.client.post(f"/api/v1/accounts/{held[0]['account']}/release", {"reason": "more quota"})

    assert (released.status, released.json()["holds"]) == (200, 1)
    assert history.client.get("/api/v1/accounts").json() == {"items": []}


def test_the_rules_of_schedules_are_listed_with_their_last_outcome(history: ServedHistory) -> None:
    (schedule,) = history.client.get("/api/v1/rules").json()["items"]

    assert schedule["schedule"] == "queue"
    (rule,) = schedule["rules"]
    assert (rule["name"], rule["when"]) == ("surge", "response.queue_depth > 100")
    assert rule["last"]["reads"] == {"response.queue_depth": 150}


def test_one_hint_is_removed_and_the_others_stay(served: ServedFleet) -> None:
    client = served.client()
    path = "/api/v1/schedules/triage/issues/hints"
    client.post(path, {"every": "1m", "ttl": "1h"})
    client.post(path, {"at": "2026-03-26T15:00:00Z"})
    first, second = sorted(client.get(path).json()["items"], key=lambda each: int(each["id"]))

    removed = client.delete(f"/api/v1/hints/{first['id']}")
    again = client.delete(f"{path}/{first['id']}")
    unknown = [client.delete(f"/api/v1/hints/{each}") for each in ("999", "no.id", "1" * 40)]

    assert (removed.status, removed.json()["changed"]) == (200, 1)
    assert (again.status, again.json()["changed"]) == (200, 0)
    assert [each.status for each in unknown] == [404, 404, 404]
    states = {each["id"]: each["state"] for each in client.get(path).json()["items"]}
    assert states == {first["id"]: "cleared", second["id"]: "active"}


def test_a_machine_removes_no_hint_of_a_person(served: ServedFleet) -> None:
    path = "/api/v1/schedules/triage/issues/hints"
    served.client().post(path, {"every": "1m", "ttl": "1h"})
    hint = served.client().get(path).json()["items"][0]["id"]

    refused = served.bearer("agent:triage", "robot").delete(f"/api/v1/hints/{hint}")
    elsewhere = served.bearer("agent:backup", "other").delete(f"/api/v1/hints/{hint}")

    assert (elsewhere.status, elsewhere.json()["code"]) == (403, "forbidden")
    assert refused.status in (403, 409) or refused.json()["changed"] == 0
    assert served.client().get(path).json()["items"][0]["state"] == "active"


def test_an_endpoint_that_no_file_defines_is_changed_and_keeps_the_rest(served: ServedFleet) -> None:
    client = served.client()
    client.post("/api/v1/targets", {"name": "probe", "url": "https://example.com/a", "method": "POST", "every": "5m"})

    changed = client.patch("/api/v1/targets/probe", {"url": "https://example.com/b", "reason": "moved"})
    of_file = client.patch("/api/v1/targets/queue-depth", {"url": "https://example.com/c"})
    command = client.patch("/api/v1/targets/backup", {"command": ["rm"]})
    secret = client.patch("/api/v1/targets/probe", {"headers": {"token_env": "AWS_SECRET_ACCESS_KEY"}})
    schedule_key = client.patch("/api/v1/targets/probe", {"every": "1s"})
    unknown = client.patch("/api/v1/targets/nobody", {"url": "https://example.com/"})

    assert (changed.status, changed.json()["what"]) == (200, "edit"), changed.text
    assert [each.status for each in (of_file, command, secret, schedule_key, unknown)] == [409, 409, 422, 422, 404]
    with served.gateway.open() as handle:
        reader = handle.require_reader()
        found = reader.find_target("probe")
        assert found is not None
        spec = reader.targets([found[0]])[found[0]].spec
    assert (getattr(spec, "url", ""), getattr(spec, "method", "")) == ("https://example.com/b", "POST")
    assert client.get("/api/v1/schedules/probe/default").json()["when"] == "every 5m"


def test_schedules_are_searched_in_the_words_of_the_dashboard(served: ServedFleet) -> None:
    client = served.client()

    found = client.get("/api/v1/schedules?q=tag:vendor-x%20-queue").json()["items"]
    mixed = client.get("/api/v1/schedules?q=issues&tag=vendor-x")

    assert [each["schedule"] for each in found] == ["triage/issues"]
    assert mixed.status == 400


def test_runs_are_found_by_cause_and_by_who_asked(served: ServedFleet) -> None:
    client = served.client()
    by_origin = client.get("/api/v1/runs?origin=nobody").json()["items"]
    run = client.get("/api/v1/runs").json()["items"][0]

    found = client.get(f"/api/v1/runs?source={run['source']}&state=failed").json()["items"]

    assert by_origin == []
    assert [each["id"] for each in found] == [run["id"]]


def test_logs_come_as_lines_of_json_and_an_agent_reads_only_its_own(history: ServedHistory) -> None:
    answer = history.client.get("/api/v1/logs?lines=5")
    printed = history.cli.run("logs", "-n", "5", "--jsonl")

    assert answer.headers["content-type"].startswith("application/jsonl")
    lines = [json.loads(each) for each in answer.text.splitlines()]
    assert lines == [json.loads(each) for each in printed.out.splitlines()]
    assert lines


def test_the_log_of_another_target_is_refused_to_an_agent(served: ServedFleet) -> None:
    robot = served.bearer("agent:backup", "robot")

    assert robot.get("/api/v1/logs?selector=triage").status == 403
    assert robot.get("/api/v1/logs?selector=0001").status == 403
    assert robot.get("/api/v1/logs").text == ""


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[ServedHistory]:
    """A fleet with one item whose report could not be delivered."""
    (tmp_path / "herdbeat.yaml").write_text(
        "version: 1\ncommands:\n  - { name: worker, command: [cat], every: 5m }\n", encoding="utf-8"
    )
    (tmp_path / STATE_DIR_NAME).mkdir(mode=0o700)
    async with open_work_herd(tmp_path / STATE_DIR_NAME) as herd:
        herd.source.offer("41", title="Fix login")
        herd.source.failures["report"] = 1
        await herd.tick()
    served = ServedHistory(CommandLine(folder=tmp_path, clock=FakeClock(NOW)))
    yield served
    served.gateway.close()


def test_work_items_are_listed_and_released(worker: ServedHistory) -> None:
    listed = worker.client.get("/api/v1/work")
    released = worker.client.post("/api/v1/work/release", {"items": ["41"], "reason": "stuck"})
    unknown = worker.client.post("/api/v1/work/release", {"items": ["7"]})

    assert [(each["item"], each["state"]) for each in listed.json()["items"]] == [("41", "ran")]
    assert released.json()["items"][0]["success"] is True
    assert unknown.status == 404
