"""`herdbeat agent test`: send an agent one tiny prompt, and show what comes back."""

import asyncio
from collections.abc import Iterator

from herdbeat.bootstrap.config import detect_system_zone
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.service.agent_trial import TRIAL_PROMPT, AgentTrial, try_agent
from herdbeat.service.serialize import serialize_trial

EXIT_RUN_FAILED = 5


def run_test(args: ParsedArgs, context: Context) -> Output:
    name = args.positional(0) or ""
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    prompt = args.value(flags.PROMPT) or TRIAL_PROMPT
    zone = detect_system_zone(context.environ)
    trial = asyncio.run(try_agent(fleet, name, context.environ, context.clock, zone, prompt=prompt))
    return Output(
        json=lambda: serialize_trial(trial),
        lines=_trial_lines(context.terminal, trial),
        exit_status=0 if trial.ok else EXIT_RUN_FAILED,
    )


def _trial_lines(terminal: Terminal, trial: AgentTrial) -> Iterator[str]:
    glyph = terminal.style("✓", "green") if trial.ok else terminal.style("✗", "red")
    report = trial.outcome.agent
    yield f"{glyph} {printable(trial.target)}   {printable(trial.runtime)}   {trial.took.total_seconds():.1f}s"
    rows = [("answer", report.answer if report else ""), ("model", report.model if report else "")]
    rows += [("used", _format_usage(trial)), ("session", trial.outcome.session)]
    rows += [("needs you", line) for line in (report.needs_you if report else ())]
    if not trial.ok:
        code = report.error_code if report else "not_started"
        rows = [("failed", f"{code}: {trial.outcome.error}"), ("fix", trial.fix), *rows]
    for label, text in rows:
        if text:
            first, *rest = terminal.wrap(printable(text.strip()), " " * 12)
            yield f"  {label:9} {first.strip()}"
            yield from rest
    for note in trial.notes:
        if note.startswith("session ") or (not trial.ok and trial.outcome.error in note):
            continue  # said above
        yield f"  {terminal.style('·', 'dim')} {printable(note)}"


def _format_usage(trial: AgentTrial) -> str:
    usage = trial.outcome.usage
    cost = f"${usage['usd']:.4f}" if "usd" in usage else ""
    tokens = f"{usage['tokens']:.0f} tokens" if "tokens" in usage else ""
    return ", ".join(part for part in (cost, tokens) if part)
