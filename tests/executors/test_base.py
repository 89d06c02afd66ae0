"""Names and labels of jobs, and where targets are placed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from herdbeat.domain.executor import EngineAccess, ExecutorKind, ExecutorSettings, RaySettings, Resources
from herdbeat.domain.target import AgentSpec, CommandSpec, EndpointSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.executors.base import (
    MAX_NAME_CHARS,
    RemoteJob,
    build_job_name_prefix,
    choose_executor,
    make_job_name,
    parse_job_name,
)

COMMAND = CommandSpec(command=("true",), working_directory=".")
AGENT = AgentSpec(runtime="claude", working_directory=".")
RAY = RaySettings(url="http://127.0.0.1:8265", token_file="/t", access=EngineAccess(label="cluster"))
SETTINGS = ExecutorSettings(ray=RAY)


def test_the_name_of_a_job_fits_a_dns_label_also_with_the_largest_run() -> None:
    name = make_job_name("0" * 16, 2**63 - 1, "ffffffff")

    assert len(name) <= MAX_NAME_CHARS
    assert name.startswith(build_job_name_prefix("0" * 16))
    assert parse_job_name(name) == ("0" * 16, 2**63 - 1)


@pytest.mark.parametrize("name", ["hb-x-1", "other-a-1-00000000", "hb-a-x-00000000", "hb-a-1-0000000g", ""])
def test_a_job_of_somebody_else_has_no_run(name: str) -> None:
    assert parse_job_name(name) is None


def test_the_token_of_a_job_is_neither_in_its_labels_nor_printed() -> None:
    job = RemoteJob(
        name=make_job_name("abc", 7, "00000000"),
        run_id=7,
        store_id="abc",
        argv=("herdbeat", "exec", "7"),
        resources=Resources(),
        timeout=timedelta(hours=1),
        token_file="/t",
        token="s3cret",
    )

    assert job.labels["herdbeat.dev/run"] == "7"
    assert "s3cret" not in repr(job) + str(job.labels)


def test_a_target_runs_where_it_says_else_where_its_node_says_else_on_the_node() -> None:
    assert choose_executor(COMMAND, SETTINGS, ()) is ExecutorKind.LOCAL
    assert choose_executor(COMMAND, SETTINGS, ("cluster",)) is ExecutorKind.RAY
    assert choose_executor(replace(COMMAND, executor=ExecutorKind.RAY), SETTINGS, ()) is ExecutorKind.RAY
    assert choose_executor(replace(COMMAND, executor=ExecutorKind.LOCAL), SETTINGS, ("cluster",)) is ExecutorKind.LOCAL


def test_what_cannot_run_elsewhere_stays_on_a_node_whose_label_names_an_engine() -> None:
    worktree = replace(AGENT, workspace=WorkspaceSpec(type=WorkspaceType.WORKTREE))

    assert choose_executor(worktree, SETTINGS, ("cluster",)) is ExecutorKind.LOCAL
    assert choose_executor(EndpointSpec(url="https://example.com"), SETTINGS, ("cluster",)) is ExecutorKind.LOCAL
    assert choose_executor(AGENT, SETTINGS, ("cluster",)) is ExecutorKind.RAY
