"""What isolated programs see of the host, asked of the real file system."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from herdbeat.domain.isolation import Access
from herdbeat.runners.agents.isolation.base import IsolationUnavailable, Mask, Mount
from herdbeat.runners.agents.isolation.visibility import (
    _socket_path,
    find_credentials,
    find_masks,
    find_program,
    find_sockets,
)

SYSTEM = ("/usr", "/bin")


@contextmanager
def listening_socket(path: Path) -> Iterator[str]:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()
        yield str(path)


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def mounts_of(home: Path, program: Path, *, hidden: tuple[str, ...] = ()) -> dict[str, str]:
    environ = {"HOME": str(home), "PATH": f"{program.parent}:/usr/bin:/bin"}
    found = find_program((program.name, "-p"), environ, hidden, SYSTEM)
    assert found.argv == (str(program), "-p")
    return {mount.place: mount.source for mount in found.mounts}


def test_state_and_fleet_files_in_the_workspace_are_masked(tmp_path: Path) -> None:
    (tmp_path / ".herdbeat").mkdir()
    (tmp_path / "herdbeat.yaml").write_text("version: 1")
    outside = tmp_path.parent / "elsewhere.yaml"

    masks = find_masks(
        [str(tmp_path)], [str(tmp_path / ".herdbeat"), str(tmp_path / "herdbeat.yaml"), str(outside)], {}
    )

    assert masks == (
        Mask(path=str(tmp_path / ".herdbeat"), is_folder=True),
        Mask(path=str(tmp_path / "herdbeat.yaml"), is_folder=False),
    )


def test_a_path_that_does_not_exist_is_not_masked(tmp_path: Path) -> None:
    assert find_masks([str(tmp_path)], [str(tmp_path / "none")], {}) == ()


def test_a_hidden_folder_behind_a_link_is_masked_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    masks = find_masks([str(tmp_path)], [str(tmp_path / "link")], {})

    assert masks == (Mask(path=str(tmp_path / "real"), is_folder=True),)


def test_what_lies_in_a_masked_folder_needs_no_mask_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".herdbeat").mkdir()
    (tmp_path / ".herdbeat" / "herdbeat.db").write_text("")

    masks = find_masks([str(tmp_path)], [str(tmp_path / ".herdbeat"), str(tmp_path / ".herdbeat" / "herdbeat.db")], {})

    assert [mask.path for mask in masks] == [str(tmp_path / ".herdbeat")]


def test_a_socket_in_the_workspace_is_masked_although_nobody_named_it(tmp_path: Path) -> None:
    with listening_socket(tmp_path / "docker.sock") as path:
        masks = find_masks([str(tmp_path)], [], {})

    assert masks == (Mask(path=path, is_folder=False),)


def test_a_folder_that_is_hidden_itself_cannot_be_the_workspace(tmp_path: Path) -> None:
    with pytest.raises(IsolationUnavailable, match="is hidden from isolated agents"):
        find_masks([str(tmp_path)], [str(tmp_path)], {})


def test_the_home_of_the_user_is_masked_in_a_workspace_around_it(tmp_path: Path) -> None:
    home = tmp_path / "home" / "ada"
    home.mkdir(parents=True)

    assert find_masks([str(tmp_path)], [str(home)], {}) == (Mask(path=str(home), is_folder=True),)


def test_sockets_of_agents_and_engines_are_found_by_their_variables(tmp_path: Path) -> None:
    with listening_socket(tmp_path / "agent") as agent, listening_socket(tmp_path / "engine") as engine:
        found = find_sockets({"SSH_AUTH_SOCK": agent, "DOCKER_HOST": f"unix://{engine}"}, table=tmp_path / "none")

    assert {agent, engine} <= set(found)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/run/x.sock", "/run/x.sock"),
        ("unix:///run/x.sock", "/run/x.sock"),
        ("unix:path=/run/x,guid=5", "/run/x"),
        ("/run/gpg:0:1", "/run/gpg"),
        ("tcp://127.0.0.1:2375", ""),
        ("", ""),
    ],
)
def test_the_path_in_a_socket_variable(text: str, path: str) -> None:
    assert _socket_path(text) == path


def test_a_program_of_the_system_needs_nothing(tmp_path: Path) -> None:
    found = find_program(("ls",), {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, (), SYSTEM)

    assert found.mounts == ()


def test_a_program_that_the_fleet_file_names_by_its_path_is_visible(tmp_path: Path) -> None:
    program = make_program(tmp_path / "beta" / "claude")
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    found = find_program((str(program), "-p"), environ, (str(tmp_path),), SYSTEM)

    assert found.argv == (str(program), "-p")
    assert [mount.source for mount in found.mounts] == [str(program)]
    assert find_program(("./claude",), environ, (), SYSTEM).mounts == ()


def test_a_program_in_the_home_brings_only_its_own_file(tmp_path: Path) -> None:
    """Claude Code's own installer makes ~/.local/bin/claude a link to one file."""
    real = make_program(tmp_path / ".local" / "share" / "claude" / "versions" / "2.1")
    (tmp_path / ".local" / "bin").mkdir()
    link = tmp_path / ".local" / "bin" / "claude"
    link.symlink_to(real)

    assert mounts_of(tmp_path, link) == {str(real): str(real), str(link): str(real)}


def test_a_program_of_npm_brings_its_packages_and_its_node(tmp_path: Path) -> None:
    prefix = tmp_path / ".nvm" / "v20"
    make_program(prefix / "bin" / "node")
    script = make_program(prefix / "lib" / "node_modules" / "@openai" / "codex" / "cli.js", "#!/usr/bin/env node\n")
    (prefix / "bin" / "codex").symlink_to(script)

    places = mounts_of(tmp_path, prefix / "bin" / "codex")

    assert places == {path: path for path in (str(prefix / "lib" / "node_modules"), str(prefix))}


def test_a_program_of_a_virtual_environment_brings_that(tmp_path: Path) -> None:
    environment = tmp_path / "tools" / "aider"
    program = make_program(environment / "bin" / "aider", f"#!{environment}/bin/python\n")
    (environment / "bin" / "python").symlink_to("/usr/bin/env")
    (environment / "pyvenv.cfg").write_text("")

    assert mounts_of(tmp_path, program) == {str(environment): str(environment)}


def test_a_script_of_pip_in_the_home_does_not_make_its_neighbours_visible(tmp_path: Path) -> None:
    program = make_program(tmp_path / ".local" / "bin" / "aider")
    (tmp_path / ".local" / "lib").mkdir()
    (tmp_path / ".local" / "share" / "keyrings").mkdir(parents=True)

    places = mounts_of(tmp_path, program)

    assert set(places) == {str(program), str(tmp_path / ".local" / "lib")}


def test_a_folder_with_something_hidden_in_it_is_not_made_visible(tmp_path: Path) -> None:
    program = make_program(tmp_path / "tool" / "bin" / "agent")
    (tmp_path / "tool" / "lib").mkdir()

    places = mounts_of(tmp_path, program, hidden=(str(tmp_path / "tool" / ".herdbeat"),))

    assert places == {str(program): str(program)}


def test_the_login_of_a_cli_is_the_only_file_of_the_home(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / ".credentials.json"
    file.parent.mkdir()
    file.write_text("{}")

    (login,) = find_credentials("claude", {"HOME": str(tmp_path)}, Access.READ_ONLY)

    assert login == Mount(source=os.path.realpath(file), target="/home/agent/.claude/.credentials.json")


def test_the_login_can_be_in_a_folder_that_a_variable_names(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{}")

    (login,) = find_credentials("codex", {"HOME": "/home/ada", "CODEX_HOME": str(tmp_path)}, Access.READ_WRITE)

    assert (login.source, login.access) == (str(tmp_path / "auth.json"), Access.READ_WRITE)


def test_without_a_login_nothing_is_mounted(tmp_path: Path) -> None:
    assert find_credentials("claude", {"HOME": str(tmp_path)}, Access.READ_ONLY) == ()
    assert find_credentials("command", {"HOME": str(tmp_path)}, Access.READ_ONLY) == ()
