"""The comparisons with peers, without the peers."""

import pytest
from bench.__main__ import BENCHES, main
from bench.throughput import CONTENDERS

from bench import subprocesses


def test_our_measurement_runs_in_its_own_process() -> None:
    with subprocesses.fresh_folder() as folder:
        measured = subprocesses.run_ours("throughput", folder, beats=10)

    assert measured["beats"] == 10
    assert measured["seconds"] > 0


def test_an_unknown_measurement_is_rejected_with_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["speed"])

    message = capsys.readouterr().err
    assert status == 2
    assert [name for name in BENCHES if name not in message] == []


def test_every_peer_has_a_goal() -> None:
    assert [each.name for each in CONTENDERS if each.at_least is None] == []
