"""The API answers with the objects that the command line prints with `--json`."""

import pytest
from tests.server.conftest import ServedFleet

PAIRS = [
    ("status", "/status"),
    ("list", "/schedules"),
    ("list triage", "/schedules?target=triage"),
    ("list --tag vendor-x", "/schedules?tag=vendor-x"),
    ("list --state failing", "/schedules?state=failing"),
    ("show triage/issues", "/schedules/triage/issues"),
    ("show queue-depth", "/schedules/queue-depth/default"),
    ("show triage", "/targets/triage"),
    ("explain triage/standup", "/schedules/triage/standup/explain"),
    ("explain queue-depth", "/schedules/queue-depth/default/explain"),
    ("runs", "/runs?limit=20"),
    ("runs --status failed", "/runs?status=failed&limit=20"),
    ("beats", "/beats"),
    ("beats triage", "/beats?schedule=triage"),
    ("changes", "/changes"),
    ("changes backup", "/changes?selector=backup"),
    ("nodes --all", "/nodes?stopped=1"),
    ("cost", "/cost"),
    ("show beat:0001", "/beats/0001"),
    ("token list", "/tokens"),
    ("pauses", "/pauses"),
    ("notify", "/notifications"),
    ("config show", "/config"),
    ("hint triage/issues --list", "/schedules/triage/issues/hints"),
]


@pytest.mark.parametrize(("words", "path"), PAIRS, ids=[words for words, _ in PAIRS])
def test_an_answer_is_what_the_command_line_prints(served: ServedFleet, words: str, path: str) -> None:
    served.token("read")
    served.client().post("/api/v1/schedules/triage/issues/hints", {"every": "1m", "ttl": "1h", "reason": "watch"})

    printed = served.cli().run(*words.split(), "--json")
    answer = served.client().get(f"/api/v1{path}")

    assert (printed.status, answer.status) == (0, 200), printed.err
    assert answer.json() == printed.json()


def test_a_run_is_shown_as_the_command_line_does_without_the_path_of_its_log(served: ServedFleet) -> None:
    printed = served.cli().run("show", "run:0001", "--json").json()
    printed.pop("log")  # a path on this machine

    assert served.client().get("/api/v1/runs/0001").json() == printed


def test_a_plan_is_what_apply_prints(served: ServedFleet) -> None:
    file = served.folder / "herdbeat.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("interval: 5m", "interval: 7m"), encoding="utf-8")

    printed = served.cli().run("apply", "--dry-run", "--json")
    answer = served.client().post("/api/v1/config/plan")

    assert answer.status == 200
    assert answer.json() == printed.json()
    assert answer.json()["changed"] == 1


def test_the_preview_of_an_expression_is_what_next_prints(served: ServedFleet) -> None:
    printed = served.cli().run("next", "0 9 * * 1-5", "-n", "3", "--tz", "Europe/Berlin", "--json")
    body = {"expression": "0 9 * * 1-5", "timezone": "Europe/Berlin", "count": 3}

    answer = served.client().post("/api/v1/preview", body)

    assert answer.json() == printed.json()
