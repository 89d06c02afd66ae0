"""The engines of a fleet from their block."""

from pathlib import Path

import pytest

from herdbeat.bootstrap.config import load_config

FLEET = """\
version: 1
executors: {{ kubernetes: {{ image: "agents:1", kubeconfig: {kubeconfig} }} }}
commands: [{{ name: a, command: [date], executor: kubernetes, every: 1h }}]
"""


@pytest.mark.parametrize(
    ("written", "found"),
    [("./config", "{fleet}/config"), ("~/config", "{home}/config"), ("/etc/config", "/etc/config")],
)
def test_a_kubeconfig_counts_from_the_fleet_file_and_not_from_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, found: str
) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "herdbeat.yaml").write_text(FLEET.format(kubeconfig=written), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    loaded = load_config("fleet/herdbeat.yaml", {}, tmp_path)

    assert loaded.fleet is not None
    assert loaded.fleet.executors.kubernetes is not None
    assert loaded.fleet.executors.kubernetes.kubeconfig == found.format(fleet=folder, home=tmp_path)
