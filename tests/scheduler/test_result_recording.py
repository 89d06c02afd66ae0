"""Results on their way into the ledger: one that cannot be written does not hold up the others."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.scheduler.complete import CompletionResult, RunCompleter
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HERD = 20


def claims_of(herd: SimulatedHerd) -> list[Claim]:
    for number in range(HERD):
        herd.schedule(f"t{number}", every="5m")
    herd.next_run("t0")  # writes them down
    return herd.store.write_now(lambda tx: claim_due(tx, herd.now, ClaimContext(1, 100, CatchupPacer(10)))).claims


async def written(herd: SimulatedHerd, ended: list[FinishedRun]) -> list[CompletionResult]:
    told: list[CompletionResult] = []
    recorder = RunCompleter(herd.store, herd.clock, herd.clock.now, told.append)
    for run in ended:
        recorder.add(run)
    running = asyncio.create_task(recorder.run())
    await recorder.wait_drained()
    running.cancel()
    return told


def runs_of(herd: SimulatedHerd) -> dict[int, RunRecord]:
    reader = SqliteReader(herd.store.path)
    try:
        return {run.id: run for run in reader.runs(Filter(limit=100))}
    finally:
        reader.close()


circle: list[object] = []
circle.append(circle)


@pytest.mark.parametrize(
    "response", [{"a": object()}, {"cost": float("nan")}, circle, {1, 2}], ids=["object", "nan", "circle", "set"]
)
async def test_a_result_that_is_no_json_fails_alone(tmp_path: Path, response: object) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        claims = claims_of(herd)
        good = Outcome(status=RunStatus.SUCCEEDED, response={"fine": True})
        ended = [FinishedRun(each.run_id, herd.now, good) for each in claims]
        bad = ended[7].run_id
        ended[7] = ended[7]._replace(outcome=Outcome(status=RunStatus.SUCCEEDED, response=response))

        await written(herd, ended)

        runs = runs_of(herd)
        assert runs.pop(bad).status is RunStatus.FAILED
        assert {run.status for run in runs.values()} == {RunStatus.SUCCEEDED}
        assert len(runs) == HERD - 1


async def test_invalid_characters_in_a_result_are_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        claims = claims_of(herd)
        odd = Outcome(
            status=RunStatus.FAILED,
            error="end\0 of \ud83d it",
            summary="\udfff",
            response={"k\0": ["\ud800"]},
            session="\0",
        )

        told = await written(herd, [FinishedRun(each.run_id, herd.now, odd) for each in claims])

        assert len(told) == 1  # nothing had to be split
        assert {run.error for run in runs_of(herd).values()} == {"end\ufffd of \ufffd it"}


async def test_a_run_whose_result_cannot_be_written_at_all_is_left_to_the_rescue(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        first, second = claims_of(herd)[:2]
        good = Outcome(status=RunStatus.SUCCEEDED)
        impossible = FinishedRun(first.run_id, "not a moment", good)  # type: ignore[arg-type]

        await written(herd, [impossible, FinishedRun(second.run_id, herd.now, good)])

        runs = runs_of(herd)
        assert runs[first.run_id].status is RunStatus.RUNNING
        assert runs[second.run_id].status is RunStatus.SUCCEEDED
