"""The environment of a child, and what overrides what."""

from tests.support.runner_jobs import command_spec, make_job

from herdbeat.runners.process.environment import build_child_environment, find_missing_variables


def test_values_of_the_target_override_the_nodes_and_the_marks_override_both() -> None:
    ours = {"HOME": "/root", "LANG": "C", "LC_ALL": "C", "AWS_SECRET": "x", "HERDBEAT_RUN": "of a node around us"}
    values = {"LANG": "de_DE.UTF-8", "COLOR": "no", "HERDBEAT_BEAT": "forged"}

    seen = build_child_environment(ours, (), values, make_job(command_spec("true"), run_id=33), "node")

    assert {name: value for name, value in seen.items() if not name.startswith("HERDBEAT_")} == {
        "HOME": "/root",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "COLOR": "no",
    }
    assert seen["HERDBEAT_RUN"] == "0011"
    assert seen["HERDBEAT_BEAT"] == "scribe/hourly:cron:2026-03-02T12:00:00Z"


def test_names_that_we_do_not_have_are_known() -> None:
    assert list(find_missing_variables({"A": "1"}, ("A", "B"))) == ["B"]
