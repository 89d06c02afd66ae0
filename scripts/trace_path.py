"""How many files one reads to follow something: those of src/herdbeat with at least one function call on its path.

    python -m scripts.trace_path [--list] [beat] [pause] [validate]

What runs while a module or a class is defined is not counted: an import is not a step of a path. Everything is driven
through `herdbeat.__main__` and a fleet file, never through other modules by name, so that the figures before and after
a move of the tree can be compared.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "herdbeat"
FLEET = """\
version: 1
fleet:
  name: traced
commands:
  - name: tidy
    command: ["true"]
    schedules:
      often: {every: 1s}
"""
PREPARATION = (("apply", "--quiet"), ("list",))
"""A ledger, and the note of where it is that the first look leaves: then a command does not read the files again."""

BEATS = 4
SELECTOR = "tidy/often"
Main = Callable[[Sequence[str]], int]


class Tracer:
    """Collects what is called while `is_on`, in this thread and in those that start later."""

    def __init__(self) -> None:
        self.is_on = False
        self._seen: set[CodeType] = set()

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def take(self) -> set[str]:
        """The files of ours since the last time, as paths below src/herdbeat."""
        seen, self._seen = self._seen, set()
        return {code.co_filename.removeprefix(f"{SOURCE}/") for code in seen}

    def _note(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 -- Python hands it over
        code = frame.f_code
        if event == "call" and self.is_on and code not in self._seen and _is_ours(code) and not _is_import(frame):
            self._seen.add(code)


def _is_import(frame: FrameType | None) -> bool:
    """Whether it is the body of a module or a class of ours, or what such a body calls."""
    while frame is not None:
        code = frame.f_code
        if _is_ours(code) and not code.co_flags & CO_NEWLOCALS:
            return True
        frame = frame.f_back
    return False


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(f"{SOURCE}/")


class Screen(io.StringIO):
    """Standard output that reports every line about a run that succeeded."""

    def __init__(self, on_success: Callable[[], None]) -> None:
        super().__init__()
        self._on_success = on_success

    def write(self, text: str) -> int:
        if "✓" in text and SELECTOR in text:
            self._on_success()
        return super().write(text)


def trace_beat(main: Main, tracer: Tracer) -> set[str]:
    """`up`, between the lines of two runs. What only some beats meet is the work of others, such as the upkeep."""
    beats: list[set[str]] = []

    def on_success() -> None:
        beats.append(tracer.take())
        tracer.is_on = True
        if len(beats) > BEATS:
            os.kill(os.getpid(), signal.SIGTERM)

    with redirect_stdout(Screen(on_success)):
        tracer.start()
        main(["up"])
    return set.intersection(*beats[1 : BEATS + 1])


def trace_pause(main: Main, tracer: Tracer) -> set[str]:
    """Offline: nothing serves the fleet, and its ledger is there."""
    return _trace_all(main, ["pause", SELECTOR], tracer)


def trace_validate(main: Main, tracer: Tracer) -> set[str]:
    return _trace_all(main, ["validate"], tracer)


PATHS: dict[str, Callable[[Main, Tracer], set[str]]] = {
    "beat": trace_beat,
    "pause": trace_pause,
    "validate": trace_validate,
}


def _trace_all(main: Main, words: Sequence[str], tracer: Tracer) -> set[str]:
    tracer.start()
    tracer.is_on = True
    with redirect_stdout(io.StringIO()):
        main(words)
    return tracer.take()


def trace_here(name: str) -> None:
    """In a process of its own: nothing is loaded, and no cache is warm. Prints the files as JSON."""
    main: Main = import_module("herdbeat.__main__").main
    with redirect_stderr(io.StringIO()):
        files = PATHS[name](main, Tracer())
    sys.setprofile(None)
    sys.stdout.write(json.dumps(sorted(files)))


def traced_files(name: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
        for command in PREPARATION:
            _python(folder, "herdbeat", *command)
        files: list[str] = json.loads(_python(folder, "scripts.trace_path", "--here", name))
        return files


def _python(folder: str, module: str, *words: str) -> str:
    environ = {**os.environ, "PYTHONPATH": f"{SOURCE.parent}{os.pathsep}{ROOT}"}
    argv = [sys.executable, "-m", module, *words]
    done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--here"]:
        trace_here(arguments[1])
        return 0
    for name in [each for each in arguments if each in PATHS] or PATHS:
        files = traced_files(name)
        sys.stdout.write(f"{name:<10}{len(files):>4} files\n")
        if "--list" in arguments:
            sys.stdout.writelines(f"  {each}\n" for each in files)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
