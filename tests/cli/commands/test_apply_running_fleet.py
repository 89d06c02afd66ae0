"""Changed files of a running fleet: watched, applied by `apply`, and applied one at a time."""

import json
from pathlib import Path

import pytest
from tests.support.running_fleet import EXTENDED_FLEET_YAML, FLEET_YAML, RunningFleet


@pytest.fixture
def fleet(tmp_path: Path) -> RunningFleet:
    return RunningFleet(tmp_path)


def test_changed_files_are_applied_and_an_invalid_one_is_not(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        fleet.write(EXTENDED_FLEET_YAML)
        applied = feed.until("files_applied")
        ran = feed.until("run_finished", schedule="more")
        fleet.write(EXTENDED_FLEET_YAML.replace("1h", "1x"))
        refused = feed.until("files_refused")
        labels = fleet.labels()

    assert applied["added"] == ["more"]
    assert ran["status"] == "succeeded"
    assert str(refused["where"]).startswith("herdbeat.yaml:5:")
    assert labels == ["quick", "more"]


def test_a_changed_program_is_reported_although_no_schedule_changed(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        fleet.write(FLEET_YAML.replace("hello", "goodbye"))
        applied = feed.until("files_applied")
    changes = fleet.call("changes", "quick")

    assert (applied["changed"], applied["targets"]) == ([], ["quick"])
    assert "changed command" in changes.stdout


def test_apply_changes_a_running_fleet_at_once(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        fleet.write(EXTENDED_FLEET_YAML)

        applied = fleet.call("apply")

        # On a slow machine the fleet may look at its files before the command does; then nothing is left to change.
        answers = (f"In effect now (pid {feed.process.pid}).", "No change")
        assert (applied.returncode, any(each in applied.stderr for each in answers)) == (0, True)
        feed.until("run_finished", schedule="more")


def test_a_dry_run_writes_nothing_at_all(fleet: RunningFleet) -> None:
    fleet.call("apply")
    fleet.write(EXTENDED_FLEET_YAML)
    ledger, log = (fleet.folder / ".herdbeat" / name for name in ("herdbeat.db", "herdbeat.db-wal"))
    before = ledger.read_bytes()

    planned = fleet.call("apply", "--dry-run", "--exit-code")

    assert planned.returncode == 6
    assert ledger.read_bytes() == before
    assert not log.exists() or log.read_bytes() == b""  # a reader may leave an empty one


def test_a_dry_run_creates_no_ledger(fleet: RunningFleet) -> None:
    fleet.call("apply", "--dry-run")

    assert [path.name for path in fleet.folder.iterdir()] == ["herdbeat.yaml"]


def test_one_workflow_file_is_applied_by_itself_and_stays(fleet: RunningFleet, tmp_path: Path) -> None:
    workflow = tmp_path / "elsewhere" / "report.yml"
    workflow.parent.mkdir()
    text = 'name: report\nagent: quick\nsource: { type: cron, expression: "0 9 * * *" }\nprompt_template: Go.\n'
    workflow.write_text(text, encoding="utf-8")
    fleet.call("apply")

    applied = fleet.call("apply", str(workflow))
    fleet.call("apply")
    labels = fleet.labels()
    homeless = workflow.with_name("homeless.yml")
    homeless.write_text(text.replace("quick", "quik"), encoding="utf-8")
    refused = fleet.call("apply", str(homeless))

    assert (applied.returncode, applied.stderr[:8]) == (0, "1 added.")
    assert labels == ["quick", "quick/report"]
    assert (refused.returncode, 'did you mean "quick"?' in refused.stderr) == (3, True)


def test_a_workflow_of_the_folder_is_applied_to_a_new_ledger_with_its_agent(fleet: RunningFleet) -> None:
    (fleet.folder / "herdbeat.yaml").unlink()
    for name, text in {
        "agents/reporter.yml": "name: reporter\n",
        "agents/other.yml": "name: other\n",
        "workflows/daily-report.yml": "name: daily-report\nagent: reporter\nprompt_template: Go.\n"
        'source: { type: cron, expression: "0 9 * * *" }\n',
    }.items():
        (fleet.folder / ".agentd" / name).parent.mkdir(parents=True, exist_ok=True)
        (fleet.folder / ".agentd" / name).write_text(text, encoding="utf-8")

    applied = fleet.call("apply", ".agentd/workflows/daily-report.yml")
    again = fleet.call("apply", ".agentd/workflows/daily-report.yml")

    assert (applied.returncode, applied.stderr[:8]) == (0, "1 added.")
    assert fleet.labels() == ["reporter/daily-report"]
    assert "No change" in again.stderr


def test_one_workflow_file_was_refused_because_of_an_error_in_another_one(fleet: RunningFleet) -> None:
    (fleet.folder / "herdbeat.yaml").unlink()
    workflow = 'name: {}\nagent: {}\nprompt_template: Go.\nsource: {{ type: cron, expression: "0 {} * * *" }}\n'
    for name, text in {
        "agents/reporter.yml": "name: reporter\n",
        "workflows/good.yml": workflow.format("good", "reporter", 9),
        "workflows/bad.yml": workflow.format("bad", "reporter", 99),
        "workflows/created.yml": workflow.format("created", "scribe", 9),
    }.items():
        (fleet.folder / ".agentd" / name).parent.mkdir(parents=True, exist_ok=True)
        (fleet.folder / ".agentd" / name).write_text(text, encoding="utf-8")
    fleet.call("create", "scribe")  # the agent of a workflow need not be in a file

    good, bad, created = (fleet.call("apply", f".agentd/workflows/{each}.yml") for each in ("good", "bad", "created"))

    assert (good.returncode, bad.returncode, created.returncode) == (0, 2, 0)
    assert "hour must be 0-23, got 99" in bad.stderr
    assert fleet.labels() == ["reporter/good", "scribe/created"]


def test_status_reports_broken_files_and_that_the_last_good_version_runs(fleet: RunningFleet) -> None:
    with fleet.up() as feed:
        fleet.write(EXTENDED_FLEET_YAML.replace("1h", "1x"))
        feed.until("files_refused")
        broken = fleet.call("status")
        as_json = fleet.call("status", "--json")
        fleet.write(EXTENDED_FLEET_YAML)
        feed.until("files_applied")
        fixed = fleet.call("status")

    text = "The files have 1 error; the last valid version is running. See: herdbeat validate"
    assert text in broken.stderr
    assert text in as_json.stderr
    assert "last valid version" not in fixed.stderr


def test_status_shows_the_running_fleet_although_its_file_is_no_yaml_and_no_command_has_read_it_before(
    fleet: RunningFleet,
) -> None:
    """Only the notes of an earlier command led to the ledger: the first one failed with exit status 2."""
    with fleet.up():
        fleet.write(FLEET_YAML + "  bad: [")
        status, logs = fleet.call("status"), fleet.call("list", "--json")

    assert status.returncode == 0, status.stderr
    assert "up" in status.stdout
    assert "last valid version is running" in status.stdout + status.stderr
    assert [each["schedule"] for each in json.loads(logs.stdout)["items"]] == ["quick"]
