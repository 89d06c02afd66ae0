"""The environment of a child, and what overrides what."""

from dataclasses import replace

from tests.support.runner_jobs import command_spec, make_job

from herdbeat.runners.process.runner import build_child_environment


def test_values_of_the_target_override_the_nodes_and_the_marks_override_both() -> None:
    ours = {"HOME": "/root", "LANG": "C", "LC_ALL": "C", "AWS_SECRET": "x", "HERDBEAT_RUN": "of a node around us"}
    values = {"LANG": "de_DE.UTF-8", "COLOR": "no", "HERDBEAT_BEAT": "forged"}
    job = make_job(replace(command_spec("true"), env_values=values), run_id=33)

    seen = build_child_environment(job, ours, "node")

    assert {name: value for name, value in seen.items() if not name.startswith("HERDBEAT_")} == {
        "HOME": "/root",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "COLOR": "no",
    }
    assert seen["HERDBEAT_RUN"] == "0011"
    assert seen["HERDBEAT_BEAT"] == "scribe/hourly:cron:2026-03-02T12:00:00Z"
