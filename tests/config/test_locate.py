from pathlib import Path

from tests.support.config_folder import ConfigFolder

from herdbeat.config import find_config


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


def test_what_is_asked_for_wins_even_if_it_does_not_exist(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": ""})
    environ = {"HERDBEAT_CONFIG": "other.yaml"}

    assert find_config(folder.path, environ) == folder.path / "other.yaml"
    assert find_config(folder.path, environ, Path("/third.yaml")) == Path("/third.yaml")


def test_yaml_wins_over_yml_in_one_folder(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yml": "", "herdbeat.yaml": ""})

    assert find_config(folder.path, {}) == folder.path / "herdbeat.yaml"


def test_a_link_to_nowhere_was_passed_over_for_a_fleet_further_up(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "", "a/x": ""})
    (folder.path / "a/herdbeat.yaml").symlink_to("moved.yaml")

    assert find_config(folder.path / "a", {}) == folder.path / "a/herdbeat.yaml"
