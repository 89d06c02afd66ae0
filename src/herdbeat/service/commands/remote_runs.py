"""Commands of `herdbeat exec`: take a run once, renew its lease, keep its log and its result.

Its credentials are three: a token of the machines of an engine, or the one-run token of a job, to take a run; and the
secret of the process that has taken it, which is computed from a key of the ledger and known to no other.
"""

import hmac
import re
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256

from herdbeat.domain.remote_run import RemoteRun, TakeDecision, decide_take
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec
from herdbeat.domain.token import EXEC_SECRET_PREFIX
from herdbeat.errors import truncate_for_message
from herdbeat.runners.agents.presets import resolve_preset
from herdbeat.scheduler.remote_jobs import load_lease, load_spec, load_work
from herdbeat.service.commands.base import RemoteRunReceipt, ReportRemoteRun, TakenRun, TakeRemoteRun
from herdbeat.service.commands.dispatch import Environment
from herdbeat.service.run_tokens import make_run_token
from herdbeat.store.base import Transaction

NONCE_PATTERN = re.compile(r"[0-9a-f]{32}")
MAX_PLACE_CHARS = 100
_KEY_BYTES = 32
_NOT_YOURS = "Another process has taken the run, or it has ended."


def make_exec_secret(key: str, run_id: int, nonce: str) -> str:
    """Return what the process shows that has taken a run under this number."""
    proof = hmac.new(key.encode(), f"exec:{run_id}:{nonce}".encode(), sha256).hexdigest()[:40]
    return f"{EXEC_SECRET_PREFIX}{run_id}_{proof}"


def is_exec_secret(key: str | None, run_id: int, nonce: str, text: str) -> bool:
    if key is None or not NONCE_PATTERN.fullmatch(nonce):
        return False
    return hmac.compare_digest(make_exec_secret(key, run_id, nonce).encode(), text.encode("utf-8", "replace"))


def take_remote_run(
    tx: Transaction,
    now: datetime,
    who: str,  # noqa: ARG001 - as all handlers
    command: TakeRemoteRun,
    environment: Environment,  # noqa: ARG001
) -> TakenRun:
    """Give the run to the first process that asks, and to the same one again. Any other is refused."""
    run = tx.remote_find(command.run)
    data, digest = tx.remote_job(command.run)
    if run is None or not _is_allowed(run, digest, command) or not NONCE_PATTERN.fullmatch(command.nonce):
        return TakenRun(refused="There is no such run to take.")
    decision = decide_take(run, command.nonce)
    if decision is TakeDecision.TAKE:
        place = truncate_for_message(command.place, MAX_PLACE_CHARS)
        if not tx.remote_take(command.run, command.nonce, place, now + load_lease(data)):
            return TakenRun(refused=_NOT_YOURS)
    if decision is TakeDecision.REFUSE or not data:
        return TakenRun(refused=_NOT_YOURS)
    if decision is TakeDecision.REPEAT:  # its process counts the lease from the request that was answered
        tx.remote_renew(command.run, command.nonce, now + load_lease(data))
    key = tx.run_key_claim(secrets.token_hex(_KEY_BYTES))
    return TakenRun(
        data=data,
        secret=make_exec_secret(key, command.run, command.nonce),
        run_token=make_run_token(key, command.run),
        note=tx.wake_note(command.run),
    )


def _is_allowed(run: RemoteRun, digest: str, command: TakeRemoteRun) -> bool:
    """A token of an engine takes what is submitted to that engine; a one-run token its own run."""
    if command.digest:
        return bool(digest) and hmac.compare_digest(digest.encode(), command.digest.encode())
    return not digest and command.executor == run.executor


def report_remote_run(
    tx: Transaction,
    now: datetime,
    who: str,  # noqa: ARG001 - as all handlers
    command: ReportRemoteRun,
    environment: Environment,  # noqa: ARG001
) -> RemoteRunReceipt:
    run = tx.remote_find(command.run)
    if run is not None and run.nonce == command.nonce and run.result:
        return RemoteRunReceipt(is_over=True)
    if run is None or not run.is_taken_by(command.nonce):
        return RemoteRunReceipt(stop=_NOT_YOURS, is_over=True)
    if command.log:
        tx.remote_add_log(command.run, command.sequence, command.log)
    if command.result:
        tx.remote_set_result(command.run, command.nonce, command.result)
        return RemoteRunReceipt(is_over=True)
    tx.remote_renew(command.run, command.nonce, now + _compute_remaining_lease(tx, run))
    return RemoteRunReceipt(stop="" if run.stop is None else run.stop.why)


def _compute_remaining_lease(tx: Transaction, run: RemoteRun) -> timedelta:
    return load_lease(tx.remote_job(run.run_id)[0])


def select_variables(data: str, environ: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the variables that a job refers to, as far as the fleet has them. The job itself has only their names."""
    job = load_work(data, now).job
    names = {*job.target.spec.variables, *job.run_spec.variables, *job.prompt_references}
    return {name: environ[name] for name in sorted(names) if name in environ}


def select_environment(data: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the target of a job names, and the logins of its CLI, as far as the fleet has them."""
    spec = load_spec(data)
    names = set(spec.env)
    if isinstance(spec, AgentSpec) and spec.runtime != COMMAND_RUNTIME:
        preset = resolve_preset(spec)
        names.update(preset.login_variables if preset is not None else ())
    return {name: environ[name] for name in sorted(names) if name in environ}
