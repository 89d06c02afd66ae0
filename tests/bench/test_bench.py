"""The races against peers: their own parts, without the peers."""

import pytest
from bench.__main__ import BENCHES, main
from bench.throughput import CONTENDERS

from bench import subprocesses


def test_a_measurement_of_ours_answers_from_its_own_process() -> None:
    with subprocesses.fresh_folder() as folder:
        found = subprocesses.run_ours("throughput", folder, beats=10)

    assert found["beats"] == 10
    assert found["seconds"] > 0


def test_an_unknown_measurement_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["speed"])

    said = capsys.readouterr().err
    assert status == 2
    assert [name for name in BENCHES if name not in said] == []


def test_every_peer_has_a_goal() -> None:
    assert [each.name for each in CONTENDERS if each.at_least is None] == []
