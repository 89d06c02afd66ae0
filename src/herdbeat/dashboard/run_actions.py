"""Forms about runs: start one, with another prompt for this once; cancel, retry and acknowledge."""

import shlex

from fastapi import Response

from herdbeat.dashboard.app import FormContext, redirect_with_notice
from herdbeat.dashboard.confirmations import show_confirmation
from herdbeat.dashboard.hidden_prompts import is_same_prompt, require_complete, require_plain
from herdbeat.dashboard.notices import PageNotice
from herdbeat.dashboard.render import format_count
from herdbeat.domain.ids import format_short_id
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.service.commands.base import AckRuns, CancelRuns, RetryRuns, TriggerSchedule
from herdbeat.service.queries.selectors import find_run, find_schedule

MAX_SHOWN_PROMPT = 60
"""Characters of a prompt in a command line that is shown."""


def run_schedule(context: FormContext, name: str) -> Response:
    """Run one schedule now. A prompt that differs from the schedule's own counts for this run only."""
    with context.host.open() as handle:
        reader = handle.require_reader()
        record = find_schedule(reader, name)
        run_spec = reader.run_specs([record.id])[record.id]
    own = run_spec.prompt or ""
    prompt = context.get("prompt").replace("\r\n", "\n")
    is_own = not prompt.strip() or is_same_prompt(prompt, own)
    if not is_own:
        require_complete(prompt, own)
        require_plain(prompt, run_spec.variables)
    command = TriggerSchedule(
        schedule=record.id,
        queue=context.get("queue") == "1",
        prompt="" if is_own else prompt,
        input=context.get("input").strip(),
        reset=context.get("reset") == "1",
        reason=context.get("reason")[:2_000],
    )
    result = context.host.deliver(context.visitor.actor, command).result
    if not result.success:
        hint = f"{result.running} of {result.max_concurrent} are running. Try it again later, or let it wait for room."
        raise Conflict(f"{record.label} was not started: {result.skip_reason}.", hint=hint)
    waits = f" It waits: {result.waits_for}." if result.waits_for else ""
    changed = " with another prompt" if command.prompt else ""
    notice = PageNotice(
        text=f"{record.label} runs now{changed}, beside its own times.{waits}",
        actor=context.visitor.actor.name,
        command_line=format_run_command(record.label, command),
    )
    return redirect_with_notice(context, notice)


def format_run_command(label: str, command: TriggerSchedule) -> str:
    prompt, words = command.prompt, ["herdbeat", "run", label]
    if prompt:
        words += ["--prompt", prompt if len(prompt) <= MAX_SHOWN_PROMPT else f"{prompt[:MAX_SHOWN_PROMPT]}…"]
    if command.input:
        words += ["--input-file", "-"]
    words += ["--queue"] if command.queue else []
    words += ["--reset"] if command.reset else []
    words += ["--reason", command.reason] if command.reason else []
    return shlex.join(words)


def change_runs(context: FormContext) -> Response:
    """Cancel, retry or acknowledge runs."""
    action, asked = context.get("action"), context.all("run")
    with context.host.open() as handle:
        found = [find_run(handle.require_reader(), each) for each in asked]
    runs = tuple(each.id for each in found if each is not None)
    if not runs:
        raise NotFound("There is no such run.", hint="It may have been pruned.")
    words = " ".join(format_short_id(each) for each in runs)
    actor, reason = context.visitor.actor, context.get("reason")[:2_000]
    if action == "cancel" and context.get("confirmed") != "1":
        return show_confirmation(
            context,
            question=f"Cancel {format_count(len(runs), 'run')}?",
            note="The programs are stopped. What they did stays done.",
            labels=[f"{format_short_id(each.id)} {each.schedule}" for each in found if each is not None],
            command_line=f"herdbeat cancel {words}",
        )
    match action:
        case "cancel":
            context.host.deliver(actor, CancelRuns(runs=runs, reason=reason))
            text = f"{format_count(len(runs), 'run')} cancelled."
        case "retry":
            retried = context.host.deliver(actor, RetryRuns(runs=runs, reason=reason, force=True)).result
            refused = next((each.refused for each in retried.items if not each.success), "")
            if refused:
                raise Conflict(f"It was not retried: {refused}.", hint="Run the schedule instead.")
            text = f"{format_count(len(runs), 'run')} retried."
        case "ack":
            context.host.deliver(actor, AckRuns(runs=runs, reason=reason))
            text = f"{format_count(len(runs), 'run')} acknowledged."
        case _:
            raise UsageError(f'There is no action "{action[:40]}".', hint="Use cancel, retry or ack.")
    return redirect_with_notice(
        context, PageNotice(text=text, actor=actor.name, command_line=f"herdbeat {action} {words}")
    )
