from pathlib import Path

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.config.locate import FileKind, display_path, find_config, resolve_relative_path

FILES = [
    ("herdbeat.yaml", "version: 1", FileKind.FLEET),
    ("prod.yaml", "agents: []", FileKind.FLEET),
    ("prod.yaml", "nothing: known", FileKind.FLEET),
    ("herdctl.yml", "agents: []", FileKind.HERDCTL_FLEET),
    ("agents/triage.yaml", "{ name: triage, model: x }", FileKind.HERDCTL_AGENT),
    ("w.yml", "{ name: w, agent: a, source: { type: manual }, prompt_template: x }", FileKind.AGENTD_WORKFLOW),
    (".agentd/workflows/w.yml", "name: w", FileKind.AGENTD_WORKFLOW),
    ("a.yml", "{ name: a, working_dir: '.' }", FileKind.AGENTD_AGENT),
    (".agentd/agents/a.yml", "name: a", FileKind.AGENTD_AGENT),
]


def test_the_nearest_file_above_is_found(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "", "a/b/x": ""})

    assert find_config(folder.path / "a/b", {}) == folder.path / "herdbeat.yaml"


def test_ours_wins_over_herdctl_and_that_over_agentd_however_far_up(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yml": "", "a/herdctl.yaml": "", "a/b/.agentd/x": ""})
    assert find_config(folder.path / "a/b", {}) == folder.path / "herdbeat.yml"

    (folder.path / "herdbeat.yml").unlink()
    assert find_config(folder.path / "a/b", {}) == folder.path / "a/herdctl.yaml"

    (folder.path / "a/herdctl.yaml").unlink()
    assert find_config(folder.path / "a/b", {}) == folder.path / "a/b/.agentd"


def test_an_explicit_path_wins_even_if_it_does_not_exist(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": ""})
    environ = {"HERDBEAT_CONFIG": "other.yaml"}

    assert find_config(folder.path, environ) == folder.path / "other.yaml"
    assert find_config(folder.path, environ, Path("/third.yaml")) == Path("/third.yaml")


def test_yaml_wins_over_yml_in_one_folder(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yml": "", "herdbeat.yaml": ""})

    assert find_config(folder.path, {}) == folder.path / "herdbeat.yaml"


def test_a_broken_link_is_found_before_a_fleet_further_up(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "", "a/x": ""})
    (folder.path / "a/herdbeat.yaml").symlink_to("moved.yaml")

    assert find_config(folder.path / "a", {}) == folder.path / "a/herdbeat.yaml"


def test_files_are_named_relative_to_the_base_and_absolute_elsewhere() -> None:
    assert display_path(Path("/a/b/c.yaml"), Path("/a")) == "b/c.yaml"
    assert display_path(Path("/x/c.yaml"), Path("/a")) == "/x/c.yaml"


def test_a_path_is_relative_to_the_file_that_contains_it() -> None:
    assert resolve_relative_path(Path("/a/b/fleet.yaml"), "../c/agent.yaml") == Path("/a/c/agent.yaml")
    assert resolve_relative_path(Path("/a/b/fleet.yaml"), "/etc/agent.yaml") == Path("/etc/agent.yaml")


@pytest.mark.parametrize(("name", "text", "kind"), FILES)
def test_the_kind_of_a_file_is_detected_by_its_name_or_its_keys(
    name: str, text: str, kind: FileKind, folder: ConfigFolder
) -> None:
    assert folder.read({name: text}, name).kind is kind


def test_the_kind_of_a_folder_is_detected_by_its_contents(folder: ConfigFolder) -> None:
    folder.write({".agentd/agents/a.yml": "name: a"})
    assert folder.read({}).kind is FileKind.AGENTD_FOLDER
    assert folder.read({}, ".agentd").kind is FileKind.AGENTD_FOLDER

    assert folder.read({"herdctl.yaml": "agents: []"}).kind is FileKind.HERDCTL_FLEET
    assert folder.read({"herdbeat.yaml": "agents: []"}).kind is FileKind.FLEET
