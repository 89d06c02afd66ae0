"""What the output on disk tells about a run whose node was killed: above all what it has used."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.agents.accounts import default_account
from herdbeat.runners.agents.events import EndedBy, ProcessEnd
from herdbeat.runners.agents.parsers import open_parser
from herdbeat.runners.agents.presets import resolve_preset
from herdbeat.runners.agents.recorder import AgentRecorder
from herdbeat.runners.run_log import find_raw_output

MAX_READ_BYTES = 16 * 1024 * 1024
"""More than `<run>.raw` may have by default. A start must not be delayed by a file that grew by other means."""

_CHUNK_BYTES = 1024 * 1024


def read_lost_report(
    state_dir: Path, run_id: int, spec: AgentSpec, environ: Mapping[str, str], zone: tzinfo, now: datetime
) -> AgentReport | None:
    """Return what a run told before its node died; None if nothing of it is left here. Blocks while it reads."""
    preset, path = resolve_preset(spec), find_raw_output(state_dir, run_id)
    if preset is None or path is None:
        return None
    parser = open_parser(preset.parser, zone, error_line=preset.error_line)
    recorder = AgentRecorder(model=spec.model or "", usage_is_cumulative=preset.usage_is_cumulative)
    try:
        with path.open("rb") as file:
            for _ in range(MAX_READ_BYTES // _CHUNK_BYTES):
                for event in parser.feed(file.read(_CHUNK_BYTES), now):
                    recorder.record(event, now)
    except OSError:
        return None
    for event in parser.close(ProcessEnd(code=None, ended_by=EndedBy.CANCEL), now):
        recorder.record(event, now)
    account = spec.account or default_account(preset, {**environ, **spec.env_values})
    return replace(recorder.report(), account=account, runtime=preset.name)
