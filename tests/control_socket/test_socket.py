"""The control socket: private to this user, easy to find, and every error is reported."""

import asyncio
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from herdbeat.control_socket import server
from herdbeat.control_socket.client import send_request
from herdbeat.control_socket.server import open_control_socket
from herdbeat.control_socket.socket_path import MAX_SOCKET_PATH_BYTES, find_socket_path, prepare_socket_path
from herdbeat.errors import Conflict, HerdbeatError, UsageError
from herdbeat.service.commands.dispatch import NotRunning


async def echo(request: Mapping[str, Any]) -> Mapping[str, object]:
    return {"heard": request["word"]}


async def refuse(request: Mapping[str, Any]) -> Mapping[str, object]:
    raise Conflict("It does not fit.", hint="Look again.")


async def stumble(request: Mapping[str, Any]) -> Mapping[str, object]:
    raise ZeroDivisionError("no way")


HANDLERS = {"echo": echo, "refuse": refuse, "stumble": stumble}


async def exchange(state_dir: Path, request: Mapping[str, object]) -> Mapping[str, Any]:
    return await asyncio.to_thread(send_request, state_dir, request)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def deep_folder(tmp_path: Path) -> Path:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    assert len(os.fsencode(folder)) > MAX_SOCKET_PATH_BYTES
    return folder


async def test_a_request_is_answered(tmp_path: Path) -> None:
    async with open_control_socket(tmp_path, HANDLERS):
        answer = await exchange(tmp_path, {"do": "echo", "word": "grüezi"})

    assert answer == {"heard": "grüezi"}


async def test_only_this_user_can_open_the_socket_and_it_is_removed_afterwards(tmp_path: Path) -> None:
    async with open_control_socket(tmp_path, HANDLERS) as socket_path:
        mode = socket_path.stat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert names_in(tmp_path) == []


async def test_a_path_too_long_for_the_kernel_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    folder = deep_folder(tmp_path)

    async with open_control_socket(folder, HANDLERS) as socket_path:
        answer = await exchange(folder, {"do": "echo", "word": "hi"})
        mode = socket_path.parent.stat().st_mode

    assert answer == {"heard": "hi"}
    assert socket_path.parent != folder
    assert stat.S_IMODE(mode) == 0o700
    assert not socket_path.parent.exists()
    assert names_in(folder) == []


@pytest.mark.parametrize("is_deep", [False, True])
async def test_a_stale_socket_is_replaced(tmp_path: Path, is_deep: bool) -> None:
    folder = deep_folder(tmp_path) if is_deep else tmp_path
    socket_path = prepare_socket_path(folder)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(os.fspath(socket_path))

    async with open_control_socket(folder, HANDLERS):
        answer = await exchange(folder, {"do": "echo", "word": "again"})

    assert answer == {"heard": "again"}
    assert not socket_path.exists()


def test_without_a_running_fleet_there_is_no_response(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="herdbeat is not running"):
        send_request(tmp_path, {"do": "echo"})


def test_a_stale_socket_counts_as_not_running(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(find_socket_path(tmp_path)))

    with pytest.raises(NotRunning):
        send_request(tmp_path, {"do": "echo"})


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({"do": "refuse"}, Conflict, "It does not fit."),
        ({"do": "dance"}, UsageError, "has no known"),
        ({}, UsageError, "has no known"),
        ({"do": "stumble"}, HerdbeatError, "ZeroDivisionError: no way"),
    ],
)
async def test_an_error_keeps_its_type_over_the_socket(
    tmp_path: Path, request_: dict[str, object], error: type[HerdbeatError], message: str
) -> None:
    async with open_control_socket(tmp_path, HANDLERS):
        with pytest.raises(error, match=message):
            await exchange(tmp_path, request_)


@pytest.mark.parametrize("line", [b"hello\n", b"[1]\n", b"\xff\xfe\n"])
async def test_an_invalid_request_is_rejected_and_the_next_one_is_answered(tmp_path: Path, line: bytes) -> None:
    async with open_control_socket(tmp_path, HANDLERS) as socket_path:
        reader, writer = await asyncio.open_unix_connection(socket_path)
        writer.write(line)
        first = await reader.readline()
        writer.write(b'{"do": "echo", "word": 1}\n')
        second = await reader.readline()
        writer.close()

    assert b'"problem"' in first
    assert second == b'{"ok": {"heard": 1}}\n'


async def test_a_request_that_is_too_long_is_rejected_and_not_reported_as_not_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_REQUEST_BYTES", 64 * 1024)

    async with open_control_socket(tmp_path, HANDLERS):
        with pytest.raises(UsageError, match="longer than 64 KiB"):
            await exchange(tmp_path, {"do": "echo", "word": "y" * 100_000})


async def test_a_line_without_end_closes_the_connection_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_REQUEST_BYTES", 64 * 1024)

    async with open_control_socket(tmp_path, HANDLERS) as socket_path:
        reader, writer = await asyncio.open_unix_connection(socket_path)
        writer.write(b"x" * 200_000)
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        answer = await exchange(tmp_path, {"do": "echo", "word": "still here"})

    assert answer == {"heard": "still here"}


async def test_a_command_that_still_holds_its_connection_at_the_end_leaves_no_traceback(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))

    async with open_control_socket(tmp_path, HANDLERS) as socket_path:
        reader, writer = await asyncio.open_unix_connection(socket_path)
        writer.write(b'{"do": "echo", "word": "still here"}\n')
        await reader.readline()
    rest = await reader.read()
    writer.close()

    assert rest == b""
    assert wrong == []
