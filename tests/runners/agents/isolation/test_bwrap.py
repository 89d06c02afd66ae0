"""The command line of bubblewrap. What it does with the real program is in tests/system."""

import pytest
from tests.support.sandbox_requests import find_values, request

from herdbeat.domain.isolation import Access, IsolationSpec, IsolationType
from herdbeat.runners.agents.isolation.base import IsolationUnavailable, Mask, Mount
from herdbeat.runners.agents.isolation.bwrap import Bubblewrap

SPEC = IsolationSpec(type=IsolationType.BWRAP)


def wrap(**changes: object) -> tuple[str, ...]:
    return Bubblewrap("/usr/bin/bwrap").wrap(request(**changes)).argv


def test_the_program_and_its_arguments_come_last_and_unchanged() -> None:
    argv = wrap(argv=("claude", "--flag", "a b", "$(x)", "--"))

    assert argv[argv.index("--") + 1 :] == ("claude", "--flag", "a b", "$(x)", "--")


def test_the_root_is_empty_but_for_system_folders() -> None:
    argv = wrap()

    assert ("/", "/") not in [*find_values(argv, "--ro-bind", 2), *find_values(argv, "--bind", 2)]
    assert ("/usr", "/usr") in find_values(argv, "--ro-bind-try", 2)
    assert not [each for each in argv if each.startswith("/home/ada")]


@pytest.mark.parametrize(("network", "shares"), [(True, True), (False, False)])
def test_the_network_is_off_unless_it_is_asked_for(*, network: bool, shares: bool) -> None:
    argv = wrap(spec=IsolationSpec(type=IsolationType.BWRAP, network=network))

    assert "--unshare-all" in argv
    assert ("--share-net" in argv) is shares


@pytest.mark.parametrize(("access", "option"), [(Access.READ_WRITE, "--bind"), (Access.READ_ONLY, "--ro-bind")])
def test_the_workspace_is_writable_or_not(access: Access, option: str) -> None:
    argv = wrap(spec=IsolationSpec(type=IsolationType.BWRAP, workspace=access))

    assert ("/srv/app", "/srv/app") in find_values(argv, option, 2)
    assert find_values(argv, "--chdir") == [("/srv/app/docs",)]


def test_masks_come_after_the_workspace_and_the_folder_of_the_run_after_them() -> None:
    argv = wrap(
        masks=(Mask(path="/srv/app/.herdbeat", is_folder=True), Mask(path="/srv/app/herdbeat.yaml", is_folder=False)),
        late_mounts=(Mount(source="/srv/app/.herdbeat/scratch/7f3k", access=Access.READ_WRITE),),
    )

    places = [
        argv.index("/srv/app"),
        argv.index("/srv/app/.herdbeat"),
        argv.index("/srv/app/herdbeat.yaml"),
        argv.index("/srv/app/.herdbeat/scratch/7f3k"),
    ]
    assert places == sorted(places)
    assert ("/srv/app/.herdbeat",) in find_values(argv, "--tmpfs")
    assert ("/dev/null", "/srv/app/herdbeat.yaml") in find_values(argv, "--ro-bind", 2)


def test_no_value_of_the_environment_is_an_argument() -> None:
    program = Bubblewrap("/usr/bin/bwrap").wrap(request())

    assert "s3cret" not in " ".join(program.argv)
    assert program.environment["TOKEN"] == "s3cret"


def test_the_environment_does_not_point_to_the_host() -> None:
    environment = {"HOME": "/home/ada", "XDG_RUNTIME_DIR": "/run/user/1000", "SSH_AUTH_SOCK": "/run/a", "LANG": "C"}

    program = Bubblewrap("/usr/bin/bwrap").wrap(request(environment=environment))

    assert program.environment == {
        "LANG": "C",
        "HOME": "/home/agent",
        "IS_SANDBOX": "1",
        "CLAUDE_CONFIG_DIR": "/home/agent/.claude",
        "CODEX_HOME": "/home/agent/.codex",
    }


def test_the_home_is_a_folder_of_the_agent_alone() -> None:
    assert ("/data/homes/scout", "/home/agent") in find_values(wrap(), "--bind", 2)


def test_credentials_are_read_only_in_that_home() -> None:
    login = Mount(source="/home/ada/.claude/.credentials.json", target="/home/agent/.claude/.credentials.json")

    argv = wrap(credentials=(login,))

    assert (login.source, login.target) in find_values(argv, "--ro-bind", 2)


def test_the_resolver_of_the_host_is_visible_with_a_network() -> None:
    bwrap = Bubblewrap("/usr/bin/bwrap", resolver="/run/systemd/resolve/stub-resolv.conf")

    online = bwrap.wrap(request()).argv
    offline = bwrap.wrap(request(spec=IsolationSpec(type=IsolationType.BWRAP, network=False))).argv

    assert "/run/systemd/resolve/stub-resolv.conf" in online
    assert "/run/systemd/resolve/stub-resolv.conf" not in offline


def test_without_bubblewrap_nothing_runs() -> None:
    with pytest.raises(IsolationUnavailable, match=r"no bwrap on the PATH\. Install bubblewrap"):
        Bubblewrap(path="/nowhere").prepare(SPEC)


def test_without_user_namespaces_nothing_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("bin") / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)

    with pytest.raises(IsolationUnavailable, match=r"No permissions to create new namespace.*user namespaces"):
        Bubblewrap(str(program)).prepare(SPEC)


@pytest.mark.parametrize(
    ("status", "said", "explained"),
    [
        (1, "bwrap: Can't find source path /srv/x: No such file", "The sandbox could not be made: Can't find source"),
        (1, "Error: bad flag", ""),
        (0, "bwrap: a warning", ""),
        (2, "bwrap: text of the program", ""),
    ],
)
def test_a_failure_of_bubblewrap_itself_is_told_from_one_of_the_program(status: int, said: str, explained: str) -> None:
    bwrap = Bubblewrap("/usr/bin/bwrap")

    why = bwrap.explain_exit(bwrap.wrap(request()), status, said)

    assert why.startswith(explained)
    assert bool(why) is bool(explained)
