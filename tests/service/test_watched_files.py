"""Which files a fleet depends on, and whether they have changed."""

import os
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.loader import try_load_fleet
from herdbeat.service.config_watch import list_watched_paths, stamp_files

FLEET = "version: 1\nimports: [{ agentd: .agentd/ }]\ncommands: [{ name: a, command: [ls], every: 5m }]\n"
AGENT = "name: devops\n"


def watched_in(folder: Path) -> set[str]:
    result = try_load_fleet(folder, environ={}, system_zone=ZoneInfo("UTC"), base=folder)
    return {str(path.relative_to(folder)) for path in list_watched_paths(result, folder)}


def test_files_listed_folders_and_the_env_file_are_watched(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(FLEET)
    (tmp_path / ".agentd" / "agents").mkdir(parents=True)
    (tmp_path / ".agentd" / "agents" / "devops.yml").write_text(AGENT)

    found = watched_in(tmp_path)

    assert {"herdbeat.yaml", ".agentd/agents/devops.yml", ".agentd/agents", ".agentd/workflows", ".env"} <= found


def test_a_stamp_differs_after_a_change_a_removal_and_a_replacement(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_text("one")
    first = stamp_files([file])

    file.write_text("one and two")
    longer = stamp_files([file])
    other.write_text("one and two")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    replaced = stamp_files([file])
    file.unlink()

    assert len({str(each) for each in (first, longer, replaced, stamp_files([file]))}) == 4
    assert stamp_files([file]) == {file: None}
