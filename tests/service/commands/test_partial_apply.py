"""A single file as a piece of a fleet."""

from pathlib import Path

import pytest

from herdbeat.bootstrap.config import load_config
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import AgentSpec
from herdbeat.scheduler.apply.plan import StoredFleet
from herdbeat.service.commands.fleet import build_partial_fleet, require_valid_fleet

AGENT = "name: {name}\nworking_directory: {folder}\nschedules: {{ s: {{ type: interval, interval: 5m }} }}\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.yaml").write_text(AGENT.format(name="a", folder="../desk"))
    (tmp_path / "herdctl.yaml").write_text("agents: [{ path: agents/a.yaml }]\n")
    return read(tmp_path / "herdctl.yaml")


@pytest.mark.parametrize(
    ("file", "written", "folder"),
    [
        ("agents/a.yaml", "../desk", "desk"),
        ("elsewhere/b.yaml", "desk", "elsewhere/desk"),
        ("elsewhere/b.yaml", "/srv/desk", "/srv/desk"),
    ],
)
def test_a_piece_of_a_fleet_works_in_the_folder_that_its_own_file_means(
    tmp_path: Path, fleet: Fleet, file: str, written: str, folder: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(AGENT.format(name=path.stem, folder=written))

    (target,) = build_partial_fleet(fleet, load_config(str(path), {}, tmp_path), StoredFleet()).targets

    assert isinstance(target.spec, AgentSpec)
    assert target.spec.working_directory == folder


def read(path: Path) -> Fleet:
    return require_valid_fleet(load_config(str(path), {}, path.parent))
