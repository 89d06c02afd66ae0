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


RAY_FLEET = """\
version: 1
executors: {{ ray: {{ url: "http://127.0.0.1:8265", token_file: {token_file}{more} }} }}
commands: [{{ name: embed, command: [python, embed.py], executor: ray, every: 1h }}]
"""


@pytest.mark.parametrize(
    ("written", "more", "found"),
    [
        ("secrets/token", "", "{fleet}/secrets/token"),
        ("/etc/herdbeat/token", "", "/etc/herdbeat/token"),
        ("token", ", folder: /srv/fleet", "/srv/fleet/token"),
    ],
)
def test_a_relative_token_file_does_not_count_from_where_ray_happens_to_start_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, more: str, found: str
) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "herdbeat.yaml").write_text(RAY_FLEET.format(token_file=written, more=more), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    loaded = load_config("fleet/herdbeat.yaml", {}, tmp_path)

    assert loaded.fleet is not None
    assert loaded.fleet.executors.ray is not None
    assert loaded.fleet.executors.ray.token_file == found.format(fleet=folder)
