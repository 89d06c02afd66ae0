"""A fake agent CLI: `python -m herdbeat.testing.fake_agent` behaves as Claude Code does, or as another CLI.

It asks no model and costs nothing. It is for demos, examples and tests; `runtime: fake` runs it. Without directions it
reads its prompt, calls two tools, and answers. Words in the prompt, or `--fake WORD` arguments, direct it:

| word | what it does |
| --- | --- |
| `fake:tools=N` | calls N tools before it answers |
| `fake:seconds=S` | takes so long for each tool |
| `fake:cost=USD` | reports this cost |
| `fake:answer=WORDS` | answers this, `_` for blanks |
| `fake:quiet` `fake:empty` | answers NOTHING TO REPORT, or nothing |
| `fake:deny=TOOL` | is denied a tool that needs approval |
| `fake:limit=TIME` | has reached its usage limit, which ends after that time (`30m`); `fake:limit` names no end |
| `fake:limited=TIME/TIME` | has reached it in the second part of each period: `300s/60s` is a minute of every five |
| `fake:auth` `fake:overloaded` `fake:max-turns` `fake:error` | fails in that way |
| `fake:metadata=JSON` | writes metadata.json into its working directory |
| `fake:crash` `fake:no-result` | ends with code 3, or without a result |
| `fake:hang` `fake:linger` | never ends: before, or after, its result |
| `fake:ignore-term` | hangs, and ignores INT and TERM |
| `fake:children` | leaves processes behind, one of them in a session of its own |
| `fake:flood=SIZE` | prints so much before it answers (`64m`, `1g`) |

`--as codex|gemini|opencode|text` chooses the CLI whose lines it writes. With `FAKE_AGENT_HOME` set it remembers its
sessions there, and does not know others. With `FAKE_AGENT_LOG` set it appends one JSON line per start: its arguments,
folder, prompt, process id and those of its children.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

_WORD_PATTERN = re.compile(r"(?<![\w:-])fake:([a-z-]+)(?:=(\S+))?")
_SIZE_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIME_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MODEL = "fake-1"
TOOLS = (("Read", "notes.md"), ("Bash", "git log --oneline -5"), ("Grep", "TODO"), ("Edit", "notes.md"))


@dataclass(slots=True)
class FakeRun:
    """One start: what it was asked, what it has used so far, and where it writes."""

    prompt: str
    words: Mapping[str, str]
    session: str
    model: str
    out: TextIO
    input_tokens: int = 0
    output_tokens: int = 0
    earlier_tokens: tuple[int, int] = (0, 0)
    usd: float = 0.0
    denied: list[tuple[str, str]] = field(default_factory=list)
    tool_calls: int = 0
    is_over: bool = False

    def line(self, **value: object) -> None:
        self.out.write(json.dumps(value) + "\n")
        self.out.flush()

    def text(self, words: str) -> None:
        self.out.write(words + "\n")
        self.out.flush()


class ClaudeSpeaker:
    """Writes lines as `claude --output-format=stream-json --verbose` does."""

    def __init__(self, run: FakeRun) -> None:
        self.run = run

    def start(self) -> None:
        self.run.line(
            type="system",
            subtype="init",
            cwd=str(Path.cwd()),
            session_id=self.run.session,
            model=self.run.model,
            tools=[name for name, _ in TOOLS],
            mcp_servers=[],
            apiKeySource="none",
        )

    def say(self, words: str) -> None:
        self._assistant({"type": "text", "text": words})

    def call(self, number: int, name: str, detail: str) -> None:
        key = "command" if name == "Bash" else "file_path"
        self._assistant({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {key: detail}})

    def result(self, number: int, *, ok: bool, output: str) -> None:
        failed = {} if ok else {"is_error": True}
        block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output, **failed}
        self.run.line(type="user", message={"role": "user", "content": [block]}, session_id=self.run.session)

    def deny(self, number: int, name: str, detail: str) -> None:
        self.result(number, ok=False, output=f"{name} requires approval: {detail}")

    def limit(self, seconds: float | None) -> str:
        if seconds is None:
            return "API Error: Request rejected (429) · This request would exceed your rate limit"
        info = {"status": "rejected", "resetsAt": int(time.time() + seconds), "rateLimitType": "five_hour"}
        self.run.line(type="rate_limit_event", rate_limit_info=info, session_id=self.run.session)
        return "You've hit your session limit"

    def succeed(self, answer: str) -> None:
        self._end(subtype="success", is_error=False, result=answer, api_error_status=None)

    def fail(self, text: str, status: int | None, kind: str) -> None:
        if kind in ("max-turns", "error", "session"):
            subtype = "error_max_turns" if kind == "max-turns" else "error_during_execution"
            self._end(subtype=subtype, is_error=True, errors=[text])
        else:
            self._end(subtype="success", is_error=True, result=text, api_error_status=status)

    def abort(self) -> None:
        self._end(subtype="error_during_execution", is_error=True, errors=[], terminal_reason="aborted_streaming")

    def _assistant(self, block: Mapping[str, object]) -> None:
        message = {"id": f"msg_{uuid.uuid4().hex[:8]}", "role": "assistant", "model": self.run.model}
        usage = {"input_tokens": 40, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1}
        self.run.line(
            type="assistant", message={**message, "content": [block], "usage": usage}, session_id=self.run.session
        )

    def _end(self, **result: object) -> None:
        run = self.run
        earlier_input, earlier_output = run.earlier_tokens
        usage = {"input_tokens": run.input_tokens - earlier_input, "output_tokens": run.output_tokens - earlier_output}
        models = {"inputTokens": run.input_tokens, "outputTokens": run.output_tokens, "costUSD": run.usd}
        denials = [{"tool_name": name, "tool_input": {"command": detail}} for name, detail in run.denied]
        run.line(
            type="result",
            session_id=run.session,
            num_turns=run.tool_calls + 1,
            total_cost_usd=run.usd,
            usage=usage,
            modelUsage={run.model: models},
            permission_denials=denials,
            **result,
        )


class CodexSpeaker(ClaudeSpeaker):
    """Writes lines as `codex exec --json` does."""

    def start(self) -> None:
        self.run.line(type="thread.started", thread_id=self.run.session)
        self.run.line(type="turn.started")

    def say(self, words: str) -> None:
        self.run.line(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": words})

    def call(self, number: int, name: str, detail: str) -> None:
        self.run.line(type="item.started", item=self._command(number, name, detail, "in_progress", None))

    def result(self, number: int, *, ok: bool, output: str) -> None:
        status = "completed" if ok else "failed"
        self.run.line(type="item.completed", item=self._command(number, "", output, status, 0 if ok else 1))

    def deny(self, number: int, name: str, detail: str) -> None:
        self.run.line(type="item.completed", item=self._command(number, name, detail, "declined", None))

    def limit(self, seconds: float | None) -> str:
        later = time.strftime("%b %d, %Y %I:%M %p", time.localtime(time.time() + (seconds or 0) + 60))
        return f"You've hit your usage limit. Try again {'later' if seconds is None else f'at {later}'}."

    def succeed(self, answer: str) -> None:  # noqa: ARG002 - it was said as a message
        run = self.run
        usage = {"input_tokens": run.input_tokens, "cached_input_tokens": 0, "output_tokens": run.output_tokens}
        run.line(type="turn.completed", usage=usage)

    def fail(self, text: str, status: int | None, kind: str) -> None:  # noqa: ARG002
        self.run.line(type="turn.failed", error={"message": text})

    def abort(self) -> None:
        return

    @staticmethod
    def _command(number: int, name: str, detail: str, status: str, code: int | None) -> dict[str, object]:
        words = f"{name} {detail}".strip()
        item = {"id": f"item_{number}", "type": "command_execution", "command": words, "status": status}
        return {**item, "aggregated_output": "", "exit_code": code}


class GeminiSpeaker(ClaudeSpeaker):
    """Writes lines as `gemini --output-format=stream-json` does."""

    def start(self) -> None:
        self.run.line(type="init", session_id=self.run.session, model=self.run.model)

    def say(self, words: str) -> None:
        self.run.line(type="message", role="assistant", content=words, delta=True)

    def call(self, number: int, name: str, detail: str) -> None:
        self.run.line(type="tool_use", tool_name=name, tool_id=f"tool_{number}", parameters={"command": detail})

    def result(self, number: int, *, ok: bool, output: str) -> None:
        told: dict[str, object] = {"status": "success", "output": output}
        if not ok:
            told = {"status": "error", "error": {"type": "failed", "message": output}}
        self.run.line(type="tool_result", tool_id=f"tool_{number}", **told)

    def deny(self, number: int, name: str, detail: str) -> None:
        self.result(number, ok=False, output=f'Tool "{name}" needs approval and was denied: {detail}')

    def limit(self, seconds: float | None) -> str:
        after = "" if seconds is None else f" Your quota will reset after {int(seconds)}s."
        return f"You have exhausted your daily quota on this model.{after}"

    def succeed(self, answer: str) -> None:  # noqa: ARG002
        self.run.line(type="result", status="success", stats=self._stats())

    def fail(self, text: str, status: int | None, kind: str) -> None:  # noqa: ARG002
        self.run.line(type="result", status="error", error={"type": "Error", "message": text}, stats=self._stats())

    def abort(self) -> None:
        return

    def _stats(self) -> dict[str, int]:
        run = self.run
        total = run.input_tokens + run.output_tokens
        return {"total_tokens": total, "input_tokens": run.input_tokens, "output_tokens": run.output_tokens}


class OpencodeSpeaker(ClaudeSpeaker):
    """Writes lines as `opencode run --format=json` does: no line says that it is over."""

    def start(self) -> None:
        self._part("step_start", type="step-start")

    def say(self, words: str) -> None:
        self._part("text", type="text", text=words)

    def call(self, number: int, name: str, detail: str) -> None:
        """Write nothing: it reports a tool when that has ended."""

    def result(self, number: int, *, ok: bool, output: str) -> None:
        ended = {"status": "completed", "output": output} if ok else {"status": "error", "error": output}
        state = {**ended, "input": {"command": output}, "title": output}
        self._part("tool_use", type="tool", tool="bash", callID=f"call_{number}", state=state)

    def deny(self, number: int, name: str, detail: str) -> None:  # noqa: ARG002
        self.run.text(f"! permission requested: {name.lower()} ({detail}); auto-rejecting")

    def limit(self, seconds: float | None) -> str:
        return f"Rate limit reached. Try again in {int(seconds or 0)}s." if seconds else "Rate limit reached."

    def succeed(self, answer: str) -> None:  # noqa: ARG002
        run = self.run
        tokens = {"input": run.input_tokens, "output": run.output_tokens, "reasoning": 0}
        self._part(
            "step_finish", type="step-finish", reason="stop", cost=run.usd, tokens=tokens | {"cache": {"read": 0}}
        )

    def fail(self, text: str, status: int | None, kind: str) -> None:  # noqa: ARG002
        self.run.line(type="error", sessionID=self.run.session, error={"name": "APIError", "data": {"message": text}})

    def abort(self) -> None:
        return

    def _part(self, kind: str, **part: object) -> None:
        self.run.line(type=kind, sessionID=self.run.session, part=part)


class TextSpeaker(ClaudeSpeaker):
    """Writes plain text, with a cost line as Aider's."""

    def start(self) -> None:
        return

    def say(self, words: str) -> None:
        self.run.text(words)

    def call(self, number: int, name: str, detail: str) -> None:  # noqa: ARG002
        self.run.text(f"… {name} {detail}")

    def result(self, number: int, *, ok: bool, output: str) -> None:
        """Write nothing: its text reports only what it does."""

    def deny(self, number: int, name: str, detail: str) -> None:  # noqa: ARG002
        self.run.text(f"not allowed: {name} {detail}")

    def limit(self, seconds: float | None) -> str:
        return f"Rate limit reached. Try again in {int(seconds or 0)}s." if seconds else "Rate limit reached."

    def succeed(self, answer: str) -> None:  # noqa: ARG002
        run = self.run
        used = f"Tokens: {run.input_tokens} sent, {run.output_tokens} received."
        run.text(f"{used} Cost: ${run.usd:.4f} message, ${run.usd:.4f} session.")

    def fail(self, text: str, status: int | None, kind: str) -> None:  # noqa: ARG002
        sys.stderr.write(text + "\n")

    def abort(self) -> None:
        return


SPEAKERS: Mapping[str, type[ClaudeSpeaker]] = {
    "claude": ClaudeSpeaker,
    "codex": CodexSpeaker,
    "gemini": GeminiSpeaker,
    "opencode": OpencodeSpeaker,
    "text": TextSpeaker,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeArguments:
    """What its command line says. Options of real CLIs that mean nothing to it are ignored."""

    speaks: str = "claude"
    words: tuple[str, ...] = ()
    resumes: str = ""
    model: str = MODEL
    prompt: str | None = None


def parse_arguments(argv: Sequence[str]) -> FakeArguments:
    values: dict[str, str] = {}
    words: list[str] = []
    rest = iter(argv)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in ("--as", "--fake", "--message-file") and not equals:
            value = next(rest, "")
        if name == "--fake":
            words.append(value)
        elif name in ("resume", "--resume", "--session", "--conversation"):
            values["resumes"] = value or next(rest, "")
        elif name == "--as":
            values["speaks"] = value
        elif name in ("--model", "--prompt", "--print") and equals:
            values["prompt" if name != "--model" else "model"] = value
        elif name == "--message-file":
            values["prompt"] = Path(value).read_text(encoding="utf-8")
        elif argument == "--":
            values["prompt"] = " ".join(rest)
    return FakeArguments(words=tuple(words), **values)


def find_words(prompt: str, arguments: Sequence[str]) -> dict[str, str]:
    """Return the directions: those of the prompt, then those of the arguments, which win."""
    words = {name: value or "" for name, value in _WORD_PATTERN.findall(prompt)}
    return words | {name: value for name, _, value in (each.partition("=") for each in arguments)}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    prompt = sys.stdin.read() if arguments.prompt is None else arguments.prompt
    words = find_words(prompt, arguments.words)
    session = arguments.resumes or str(uuid.uuid4())
    run = FakeRun(prompt=prompt, words=words, session=session, model=arguments.model, out=sys.stdout)
    speaker = SPEAKERS.get(arguments.speaks, ClaudeSpeaker)(run)
    children = list(_start_children()) if "children" in words else []
    _log_start(argv or sys.argv[1:], run, children)
    if arguments.resumes and not _restore_session(run):
        text = f"No conversation found with session ID: {session}"
        sys.stderr.write(text + "\n")
        speaker.fail(text, None, "session")
        sys.exit(1)
    _handle_signals(run, speaker)
    sys.exit(play(run, speaker))


def play(run: FakeRun, speaker: ClaudeSpeaker) -> int:
    """Do what the words say; return the exit code."""
    words = run.words
    if "crash" in words:
        sys.stderr.write("fake agent: internal error\n")
        return 3
    speaker.start()
    if (failure := _find_failure(speaker, words)) is not None:
        text, status, kind = failure
        speaker.say(text)
        speaker.fail(text, status, kind)
        return 1
    _call_tools(run, speaker)
    if "flood" in words:
        _flood(run, words["flood"])
    if "hang" in words or "ignore-term" in words:
        _wait_for_ever()
    if "metadata" in words:
        Path("metadata.json").write_text(words["metadata"], encoding="utf-8")
    run.usd += float(words.get("cost") or 0.01)
    _store_session(run)
    if "no-result" in words:
        return 0
    answer = _answer(run)
    if answer:
        speaker.say(answer)
    speaker.succeed(answer)
    run.is_over = True
    if "linger" in words:
        _wait_for_ever()
    return 0


def _find_failure(speaker: ClaudeSpeaker, words: Mapping[str, str]) -> tuple[str, int | None, str] | None:
    """Return text, HTTP status and kind of the failure that the words ask for."""
    if "limit" in words:
        return speaker.limit(_parse_seconds(words["limit"])), 429, "limit"
    if (left := _time_limited(words.get("limited", ""))) is not None:
        return speaker.limit(left), 429, "limit"
    if "auth" in words:
        return "Not logged in · Please run /login", None, "auth"
    if "overloaded" in words:
        return "API Error: Repeated 529 Overloaded errors", 529, "overloaded"
    if "max-turns" in words:
        return "Reached maximum number of turns (2)", None, "max-turns"
    if "error" in words:
        return words["error"].replace("_", " ") or "Something went wrong", None, "error"
    return None


def _time_limited(periods: str) -> float | None:
    """Return how long it is still limited, in a period that ends with a limited part; None if it is not."""
    period, length = (_parse_seconds(each) or 0.0 for each in (*periods.split("/"), "")[:2])
    left = period - time.time() % period if period else 0.0
    return left if 0 < left <= length else None


def _call_tools(run: FakeRun, speaker: ClaudeSpeaker) -> None:
    pause = float(run.words.get("seconds") or 0.02)
    for number in range(1, int(run.words.get("tools") or 2) + 1):
        name, detail = TOOLS[(number - 1) % len(TOOLS)]
        speaker.call(number, name, detail)
        time.sleep(pause)
        speaker.result(number, ok=True, output=detail)
        run.tool_calls += 1
        run.input_tokens += 400
        run.output_tokens += 60
    if "deny" in run.words:
        name = run.words["deny"] or "Bash"
        run.denied.append((name, "git push"))
        speaker.call(99, name, "git push")
        speaker.deny(99, name, "git push")
    run.input_tokens += 100
    run.output_tokens += 40


def _answer(run: FakeRun) -> str:
    if "empty" in run.words:
        return ""
    if "quiet" in run.words:
        return "Looked at everything.\nNOTHING TO REPORT"
    if "answer" in run.words:
        return run.words["answer"].replace("_", " ")
    asked = _WORD_PATTERN.sub("", run.prompt).strip().partition("\n")[0].strip()
    return f"Done: {asked or 'nothing was asked'}"


def _flood(run: FakeRun, size: str) -> None:
    left = int(float(size[:-1]) * _SIZE_UNITS[size[-1]]) if size[-1:] in _SIZE_UNITS else int(size)
    line = ("x" * 4095 + "\n") * 16
    while left > 0:
        run.out.write(line)
        left -= len(line)
    run.out.flush()


def _parse_seconds(text: str) -> float | None:
    return float(text[:-1]) * _TIME_UNITS[text[-1]] if text[-1:] in _TIME_UNITS else float(text) if text else None


def _wait_for_ever() -> NoReturn:
    while True:
        time.sleep(0.1)  # signal.pause() would miss a signal that comes right before it


def _handle_signals(run: FakeRun, speaker: ClaudeSpeaker) -> None:
    def interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        if not run.is_over:  # else its result has said all
            run.usd += float(run.words.get("cost") or 0.01)
            speaker.abort()
        run.out.flush()
        os._exit(130)

    ignores = "ignore-term" in run.words
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignores else interrupt)
    if ignores:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _start_children() -> Iterator[int]:
    sleep = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    for is_detached in (False, True):
        child = subprocess.Popen(sleep, start_new_session=is_detached, stdin=subprocess.DEVNULL)  # noqa: S603
        yield child.pid


def _log_start(argv: Sequence[str], run: FakeRun, children: Sequence[int]) -> None:
    path = os.environ.get("FAKE_AGENT_LOG")
    if not path:
        return
    started = {"argv": list(argv), "cwd": str(Path.cwd()), "prompt": run.prompt, "pid": os.getpid()}
    started |= {"children": list(children), "env": sorted(os.environ), "session": run.session}
    with Path(path).open("a", encoding="utf-8") as log:
        log.write(json.dumps(started) + "\n")


def _restore_session(run: FakeRun) -> bool:
    """Continue the totals of a session; False if it is not known. Without a home, every session is."""
    home = os.environ.get("FAKE_AGENT_HOME")
    if not home:
        return "forget" not in run.words
    try:
        totals = json.loads((Path(home) / f"{run.session}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    run.input_tokens, run.output_tokens, run.usd = totals["input"], totals["output"], totals["usd"]
    run.earlier_tokens = (run.input_tokens, run.output_tokens)
    return True


def _store_session(run: FakeRun) -> None:
    home = os.environ.get("FAKE_AGENT_HOME")
    if home:
        Path(home).mkdir(parents=True, exist_ok=True)
        totals = {"input": run.input_tokens, "output": run.output_tokens, "usd": run.usd}
        (Path(home) / f"{run.session}.json").write_text(json.dumps(totals), encoding="utf-8")


if __name__ == "__main__":
    main()
