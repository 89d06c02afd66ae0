"""Start nodes and commands without their imports: each is forked from one process that has loaded herdbeat already.

Three quarters of the processor time of a fault test were the imports of its nodes, the same ones every time. A process
from here is a real one: its pid, signals, environment, files and death are its own. Only its command line is that of
the process it was forked from. What reads that is started by `subprocess`, and so is another version.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module, reload
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

_ROOT = Path(__file__).parents[2]
LOADED_MODULES = (
    *("herdbeat.bootstrap.fleet", "herdbeat.config.loader", "herdbeat.control_socket.server", "herdbeat.testing.clock"),
    *("herdbeat.store.postgres.store", "herdbeat.runners.functions", "herdbeat.runners.process.runner"),
    *("herdbeat.cli.commands.apply", "herdbeat.cli.commands.run", "herdbeat.cli.commands.list"),
)
_ANSWER_BYTES = 8


class WarmProcess(subprocess.Popen[bytes]):
    """A Python module that runs in a process of its own, as `python -m MODULE ARGUMENTS` would.

    Without `stdout`, its standard output is a pipe, as with `stdout=PIPE`.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        stderr: IO[bytes],
        stdout: IO[bytes] | None = None,
        cwd: Path = _ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.args = [module, *arguments]
        self.stdin = self.stderr = None
        self.returncode: int | None = None
        self.stdout, output = (None, stdout) if stdout is not None else _open_pipe()
        self._ended, ending = socket.socketpair()
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": dict(env or os.environ)}
        with ending, TemporaryFile() as file:
            file.write(json.dumps(request).encode())
            file.flush()
            files = [file.fileno(), output.fileno(), stderr.fileno(), ending.fileno()]
            socket.send_fds(_server(), [b"+"], files)
            self.pid = int(self._ended.recv(_ANSWER_BYTES))
        if stdout is None:
            output.close()

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._look(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._ended.settimeout(timeout)
            with suppress(TimeoutError, BlockingIOError):
                self.returncode = int(self._ended.recv(_ANSWER_BYTES))
                self._ended.close()
        return self.returncode


def _open_pipe() -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def run_module(module: str, *arguments: str, cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run it to its end, and return what it has printed, as `subprocess.run` does."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = WarmProcess(module, *arguments, cwd=cwd, stdout=output, stderr=errors)
        try:
            status = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        printed = [os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0).decode() for each in (output, errors)]
    return subprocess.CompletedProcess(process.args, status, *printed)


@cache
def _server() -> socket.socket:
    """Return the socket of the process that forks. It ends when this one does, and lets the others live."""
    here, there = socket.socketpair()
    with there:
        command = [sys.executable, "-m", "tests.support.warm_start", str(there.fileno())]
        process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()])
    atexit.register(process.wait)
    atexit.register(here.close)
    return here


def _serve(requests: socket.socket) -> None:
    """Fork for each request, until the other end is closed."""
    for name in LOADED_MODULES:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        _, files, _, _ = socket.recv_fds(requests, 1, 4)
        if not files:
            return
        if os.fork() == 0:
            requests.close()
            _start(*files)
            return
        for each in files:
            os.close(each)


def _start(request: int, output: int, errors: int, ending: int) -> None:
    """Fork the process, tell its pid, and in the end its exit status."""
    os.lseek(request, 0, os.SEEK_SET)
    with os.fdopen(request, "rb") as file:
        wanted = json.load(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(ending)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.close(output)
        os.close(errors)
        _run(**wanted)
        return
    os.close(output)
    os.close(errors)
    os.write(ending, f"{pid:{_ANSWER_BYTES}}".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(ending, f"{status:{_ANSWER_BYTES}}".encode())
    os._exit(0)


def _run(module: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    reload(import_module("herdbeat.failpoints"))  # the only module that reads the environment while it is loaded
    sys.argv = ["", *arguments]
    sys.path[0] = cwd
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
