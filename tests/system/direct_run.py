"""A CLI started as herdbeat starts it, without herdbeat: by the arguments of its preset, read by its parser."""

import os
import signal
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.system.agent_clis import AgentCli, AgentHome
from tests.system.parts import read_states

from herdbeat.domain.agent_run import AgentReport
from herdbeat.runners.agents.events import EndedBy, ProcessEnd
from herdbeat.runners.agents.invocation import AgentRequest, build_argv
from herdbeat.runners.agents.parsers import open_parser
from herdbeat.runners.agents.presets import PRESETS
from herdbeat.runners.agents.recorder import AgentRecorder

RUN_TIMEOUT_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectRun:
    """What one run of a CLI gave."""

    report: AgentReport
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class RunningCli:
    """A CLI that was started and reads its prompt."""

    cli: AgentCli
    process: subprocess.Popen[bytes]
    prompt: bytes | None

    def finish(self) -> DirectRun:
        return self._collect(EndedBy.ITSELF)

    def end_by_timeout(self) -> DirectRun:
        """Interrupt the process group, as the runner does at a timeout."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self._collect(EndedBy.TIMEOUT)

    def _collect(self, ended_by: EndedBy) -> DirectRun:
        try:
            out, err = self.process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
        end = ProcessEnd(code=self.process.returncode, ended_by=ended_by, stderr=err.decode())
        return DirectRun(
            report=_read_report(self.cli, out, end), code=self.process.returncode, out=out.decode(), err=err.decode()
        )


def start_cli(cli: AgentCli, home: AgentHome, prompt: str, **options: object) -> RunningCli:
    """Start the CLI with this prompt. `options` are those of AgentRequest."""
    scratch = home.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    program = read_states()[cli.name].program
    values = {"model": cli.model, **options}
    request = AgentRequest(prompt=prompt, scratch_dir=str(scratch), program=program, **values)  # type: ignore[arg-type]
    invocation = build_argv(PRESETS[cli.name], request)
    for file in invocation.files:
        Path(file.path).write_text(file.text, encoding="utf-8")
    process = subprocess.Popen(
        invocation.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home.workspace,
        env=home.variables | dict(invocation.env),
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(invocation.stdin or b"")
    process.stdin.close()
    process.stdin = None  # or `communicate` would flush it
    return RunningCli(cli, process, invocation.stdin)


def run_cli(cli: AgentCli, home: AgentHome, prompt: str, **options: object) -> DirectRun:
    """Run the CLI to its end."""
    return start_cli(cli, home, prompt, **options).finish()


def _read_report(cli: AgentCli, out: bytes, end: ProcessEnd) -> AgentReport:
    preset = PRESETS[cli.name]
    parser = open_parser(preset.parser, UTC, error_line=preset.error_line)
    recorder = AgentRecorder(model=cli.model, usage_is_cumulative=preset.usage_is_cumulative)
    now = datetime.now(UTC)
    for event in [*parser.feed(out, now), *parser.close(end, now)]:
        recorder.record(event, now)
    return recorder.report()
