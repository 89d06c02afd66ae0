"""What each command asks of a server: one request, whose answer is the object of `--json`."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from herdbeat.cli import spec as flags
from herdbeat.cli.remote import RemoteCommand, RemoteRequest
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.errors import NotFound, UsageError
from herdbeat.timestamps import parse_stored_timestamp

_SELECTION = (flags.TAG, flags.GROUP, flags.ALL)
_PAGE = (flags.COUNT, flags.CURSOR)


def schedule_path(selector: str) -> str:
    target, slash, name = selector.partition("/")
    return f"/schedules/{_segment(target)}/{_segment(name if slash else DEFAULT_SCHEDULE_NAME)}"


def _segment(text: str) -> str:
    return quote(text, safe="")


def _reason(request: RemoteRequest) -> dict[str, object]:
    return {"reason": request.args.value(flags.REASON) or ""}


def _status(request: RemoteRequest) -> Any:
    return request.server.get("/status", selector=request.args.positional(0))


def _list(request: RemoteRequest) -> Any:
    args = request.args
    return request.server.get(
        "/schedules",
        target=args.positionals,
        tag=args.all_values(flags.TAG),
        group=args.all_values(flags.GROUP),
        state=args.value(flags.IN_STATE),
        limit=args.value(flags.COUNT) or 200,
        cursor=args.value(flags.CURSOR),
    )


def _show(request: RemoteRequest) -> Any:
    selector, server = request.args.positionals[0], request.server
    kind, colon, number = selector.partition(":")
    if colon and kind in ("run", "beat"):
        return server.get(f"/{kind}s/{_segment(number)}")
    if "/" in selector:
        return server.get(schedule_path(selector))
    first, *others = (schedule_path(selector), f"/targets/{_segment(selector)}", f"/runs/{_segment(selector)}")
    try:
        return server.get(first)
    except NotFound as error:
        for path in others:
            try:
                return server.get(path)
            except NotFound:
                continue
        raise error from None


def _explain(request: RemoteRequest) -> Any:
    path = schedule_path(request.args.positionals[0])
    return request.server.get(f"{path}/explain", at=request.past(flags.AT))


def _next(request: RemoteRequest) -> Any:
    start = request.future(flags.FROM)
    count = request.args.value(flags.COUNT)
    return request.server.get("/next", selector=request.args.positional(0), count=count, start=start)


def _get(path: str, *, selector: str = "selector", limit: str = "limit", **fixed: object) -> Callable[..., Any]:
    """A list: of everything, or of what is named."""

    def look(request: RemoteRequest) -> Any:
        args = request.args
        query: dict[str, object] = {
            selector: args.positional(0),
            limit: args.value(flags.COUNT),
            "cursor": args.value(flags.CURSOR),
            "since": request.past(flags.SINCE),
            **fixed,
        }
        return request.server.get(path, **query)

    return look


def _runs(request: RemoteRequest) -> Any:
    args = request.args
    return request.server.get(
        "/runs",
        schedule=args.positional(0),
        status=args.value(flags.RUN_STATUS),
        since=request.past(flags.SINCE),
        limit=args.value(flags.COUNT) or 20,
        cursor=args.value(flags.CURSOR),
    )


def _beats(request: RemoteRequest) -> Any:
    args = request.args
    return request.server.get(
        "/beats",
        schedule=args.positional(0),
        outcome=args.value(flags.OUTCOME),
        result=args.value(flags.RESULT),
        since=request.past(flags.SINCE),
        limit=args.value(flags.COUNT),
        cursor=args.value(flags.CURSOR),
    )


def _nodes(request: RemoteRequest) -> Any:
    stopped = "1" if request.args.has(flags.ALL) else None
    return request.server.get("/nodes", limit=request.args.value(flags.COUNT), stopped=stopped)


def _cost(request: RemoteRequest) -> Any:
    args = request.args
    by, since = args.value(flags.COST_BY), request.past(flags.SINCE)
    return request.server.get("/cost", selector=args.positional(0), by=by, since=since)


def _work(request: RemoteRequest) -> Any:
    args = request.args
    everything = "1" if args.has(flags.ALL) else None
    return request.server.get("/work", target=args.positional(0), all=everything, limit=args.value(flags.COUNT))


def _release(request: RemoteRequest) -> Any:
    return request.server.post("/work/release", {"items": list(request.args.positionals), **_reason(request)})


def _timeline(request: RemoteRequest) -> Any:
    return request.server.get("/timeline", selector=request.args.positionals, since=request.past(flags.SINCE))


def _ack(request: RemoteRequest) -> Any:
    names = list(request.args.positionals)
    if not names and not request.args.has(flags.ALL):
        return request.server.get("/attention")
    body = {"runs": names, "all": request.args.has(flags.ALL), **_reason(request)}
    return _drop_served(request.server.post("/attention/ack", body))


def _drop_served(answer: Mapping[str, object]) -> dict[str, object]:
    """Here the command says what changed, and not who acts on it."""
    return {key: value for key, value in answer.items() if key != "served"}


def _rules_test(request: RemoteRequest) -> Any:
    body: dict[str, object] = {"schedule": request.args.positionals[0]}
    if (since := request.past(flags.SINCE)) is not None:
        body["since"] = since
    return request.server.post("/rules/test", body)


def _run(request: RemoteRequest) -> Any:
    from herdbeat.cli.commands.run import read_file, read_prompt  # noqa: PLC0415 -- loads what only a run needs

    args, selector = request.args, request.args.positionals[0]
    if (name := args.value(flags.SCHEDULE)) is not None:
        selector = f"{selector}/{name}"
    body: dict[str, object] = {"queue": args.has(flags.QUEUE), "reset": args.has(flags.RESET), **_reason(request)}
    if prompt := read_prompt(args, request.context):
        body["prompt"] = prompt
    if text := read_file(args.value(flags.INPUT_FILE), request.context):
        body["input"] = _read_json(text)
    return request.server.post(f"{schedule_path(selector)}/runs", body)


def _read_json(text: str) -> object:
    import json  # noqa: PLC0415 -- as few runs have an input

    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError("The input is not JSON.", hint='Write for example: {"action": "published"}') from error


def _bulk(action: str, **options: flags.Option) -> RemoteCommand:
    def change(request: RemoteRequest) -> Any:
        args = request.args
        if args.has(flags.ALL) and not args.has(flags.YES):
            raise UsageError("This changes every schedule of the server.", hint="Confirm with --yes.")
        given = {**_read_values(request, options), **_reason(request)}
        if action in ("pause", "disable"):
            given["cancel_running"] = args.has(flags.CANCEL_RUNNING)
        if action == "skip" and args.has(flags.CLEAR):
            given["count"] = 0
        clears = action == "hint" and args.has(flags.CLEAR)
        if clears:
            from herdbeat.cli.commands.hint import parse_hint_id  # noqa: PLC0415 -- only for --id

            given |= {} if (hint_id := parse_hint_id(args)) is None else {"hint": hint_id}
        body = {"select": _selection(request), "action": "clear_hints" if clears else action, "args": given}
        return request.server.post("/bulk", {**body, "dry_run": args.has(flags.DRY_RUN)})

    more = {"pause": (flags.CANCEL_RUNNING,), "disable": (flags.CANCEL_RUNNING,), "skip": (flags.CLEAR,)}
    return RemoteCommand(
        call=change,
        options=(*options.values(), *_SELECTION, flags.REASON, flags.DRY_RUN, *more.get(action, ())),
    )


def _read_values(request: RemoteRequest, options: Mapping[str, flags.Option]) -> dict[str, object]:
    """Return the given values as the server reads them: times with their date, numbers as numbers."""
    values: dict[str, object] = {}
    for name, option in options.items():
        text = request.args.value(option)
        if text is None:
            continue
        if name in ("until", "at"):
            values[name] = request.future(option)
        else:
            values[name] = (int(text) if text.isdecimal() else -1) if name == "count" else text
    return values


def _selection(request: RemoteRequest) -> dict[str, object]:
    args = request.args
    return {
        "names": list(args.positionals),
        "tag": list(args.all_values(flags.TAG)),
        "group": list(args.all_values(flags.GROUP)),
        "all": args.has(flags.ALL),
    }


def _hint(request: RemoteRequest) -> Any:
    args = request.args
    if args.has(flags.LIST):
        tags, groups = args.all_values(flags.TAG), args.all_values(flags.GROUP)
        return request.server.get("/hints", selector=args.positionals, tag=tags, group=groups)
    return _HINT_CHANGE.call(request)


_HINT_CHANGE = _bulk("hint", every=flags.EVERY, at=flags.AT, ttl=flags.FOR)


def _resume(request: RemoteRequest) -> Any:
    account = request.args.value(flags.ACCOUNT)
    if account is not None:
        return request.server.post(f"/accounts/{_segment(account)}/release", _reason(request))
    return _RESUME_CHANGE.call(request)


_RESUME_CHANGE = _bulk("resume")


def _change_runs(action: str) -> Callable[[RemoteRequest], Any]:
    """A run by its id; `cancel` also takes schedules."""

    def change(request: RemoteRequest) -> Any:
        args = request.args
        names_schedules = bool(args.all_values(flags.TAG) or args.all_values(flags.GROUP) or args.has(flags.ALL))
        is_single = len(args.positionals) == 1 and not names_schedules
        body = {"force": args.has(flags.FORCE), **_reason(request)}
        if is_single and "/" not in args.positionals[0]:
            try:
                return request.server.post(f"/runs/{_segment(args.positionals[0])}/{action}", body)
            except NotFound:
                if action != "cancel":
                    raise
        if action != "cancel":
            raise UsageError(f"--url can {action} one run at a time.", hint="Name the id of one run.")
        if args.has(flags.ALL) and not args.has(flags.YES):
            raise UsageError("This cancels every run of the server.", hint="Confirm with --yes.")
        asked = {"select": _selection(request), "action": "cancel", "args": body, "dry_run": args.has(flags.DRY_RUN)}
        return request.server.post("/bulk", asked)

    return change


def _backfill(request: RemoteRequest) -> Any:
    args = request.args
    if args.value(flags.FROM) is None:
        raise UsageError("--from is missing.", hint="Give the start of the period, for example --from 2026-03-01.")
    body: dict[str, object] = {
        "from": request.past(flags.FROM),
        "dry_run": args.has(flags.DRY_RUN),
        **_reason(request),
    }
    if args.value(flags.UNTIL) is not None:
        body["until"] = request.past(flags.UNTIL)
    if (most := args.value(flags.MAX)) is not None:
        body["max"] = int(most) if most.isdecimal() else -1
    return request.server.post(f"{schedule_path(args.positionals[0])}/backfill", body)


def _trigger_keys(request: RemoteRequest) -> dict[str, object]:
    """Return the trigger, the prompt and the zone in the keys of a file."""
    args = request.args
    keys: dict[str, object] = {}
    for name, option in (("every", flags.EVERY), ("cron", flags.CRON), ("prompt", flags.PROMPT)):
        if args.value(option) is not None:
            keys[name] = args.value(option)
    if args.value(flags.AT) is not None:
        keys["at"] = request.future(flags.AT)
    if args.value(flags.ZONE) is not None:
        keys["timezone"] = args.value(flags.ZONE)
    return keys


def _create(request: RemoteRequest) -> Any:
    args, keys = request.args, _trigger_keys(request)
    url = args.value(flags.URL)
    if url is not None:
        return request.server.post("/targets", {"name": args.positionals[0], "url": url, **keys, **_reason(request)})
    return request.server.post("/schedules", {"schedule": args.positionals[0], **keys, **_reason(request)})


def _update(request: RemoteRequest) -> Any:
    keys, enabled = _trigger_keys(request), request.args.value(flags.ENABLED)
    if enabled is not None:
        keys["enabled"] = enabled == "true"
    return request.server.patch(schedule_path(request.args.positionals[0]), {**keys, **_reason(request)})


def _delete(request: RemoteRequest) -> Any:
    selector = request.args.positionals[0]
    if "/" in selector:
        return request.server.delete(schedule_path(selector))
    return request.server.delete(f"/targets/{_segment(selector)}")


def _apply(request: RemoteRequest) -> Any:
    """The server reads the fleet's own files: nothing of this machine is sent."""
    if request.args.positionals:
        raise UsageError("With --url, the server applies its own files.", hint="Leave the path out.")
    if request.args.has(flags.DRY_RUN):
        return request.server.post("/config/plan", {})
    return request.server.plan_and_apply("")


def _logs(request: RemoteRequest) -> Any:
    """Print line by line, as it may not end."""
    args = request.args
    since, count = request.past(flags.SINCE), args.value(flags.COUNT)
    pairs = [("selector", each) for each in args.positionals]
    pairs += [("since", since)] if since else []
    pairs += [("lines", count or ("10" if args.has(flags.FOLLOW) else "100"))]
    pairs += [("follow", "1")] if args.has(flags.FOLLOW) else []
    terminal = request.context.terminal
    for line in request.server.stream(f"/logs?{urlencode(pairs)}"):
        terminal.print(line.rstrip("\n") if args.has(flags.JSONL) else _format_log_line(line))
        terminal.out.flush()
    return {}


def _format_log_line(line: str) -> str:
    entry: dict[str, str] = _parse_object(line)
    at = parse_stored_timestamp(entry["at"])
    return f"{at:%H:%M:%S} {entry['schedule']} {entry['run']} {entry['stream']:7} {entry['text']}".rstrip()


def _parse_object(line: str) -> Any:
    import json  # noqa: PLC0415 -- only the logs are read line by line

    return json.loads(line)


def _token_create(request: RemoteRequest) -> Any:
    args = request.args
    expires = args.value(flags.EXPIRES)
    body: dict[str, object] = {
        "name": args.positionals[0],
        "scope": args.value(flags.SCOPE) or "read",
        **_reason(request),
    }
    if expires is not None:
        body["expires"] = None if expires == "never" else expires
    return request.server.post("/tokens", body)


def _pauses(request: RemoteRequest) -> Any:
    past = "1" if request.args.has(flags.ALL) else None
    return request.server.get("/pauses", past=past, limit=request.args.value(flags.COUNT))


def _notify(request: RemoteRequest) -> Any:
    past = "1" if request.args.has(flags.ALL) else None
    return request.server.get("/notifications", past=past, limit=request.args.value(flags.COUNT))


_CONTROL = (flags.REASON, flags.DRY_RUN, *_SELECTION)
_TRIGGER = (flags.EVERY, flags.CRON, flags.AT, flags.PROMPT, flags.ZONE, flags.REASON)

REMOTE_COMMANDS: dict[str, RemoteCommand] = {
    "status": RemoteCommand(call=_status),
    "list": RemoteCommand(call=_list, options=(flags.TAG, flags.GROUP, flags.IN_STATE, *_PAGE)),
    "show": RemoteCommand(call=_show),
    "explain": RemoteCommand(call=_explain, options=(flags.AT,)),
    "next": RemoteCommand(call=_next, options=(flags.COUNT, flags.FROM)),
    "runs": RemoteCommand(call=_runs, options=(flags.RUN_STATUS, flags.SINCE, *_PAGE)),
    "beats": RemoteCommand(call=_beats, options=(flags.OUTCOME, flags.RESULT, flags.SINCE, *_PAGE)),
    "changes": RemoteCommand(call=_get("/changes"), options=(flags.SINCE, *_PAGE)),
    "nodes": RemoteCommand(call=_nodes, options=(flags.ALL, flags.COUNT)),
    "cost": RemoteCommand(call=_cost, options=(flags.COST_BY, flags.SINCE)),
    "sessions": RemoteCommand(call=_get("/sessions"), options=(flags.COUNT,)),
    "work": RemoteCommand(call=_work, options=(flags.ALL, flags.COUNT)),
    "release": RemoteCommand(call=_release, options=(flags.REASON,)),
    "timeline": RemoteCommand(call=_timeline, options=(flags.SINCE,)),
    "logs": RemoteCommand(call=_logs, options=(flags.FOLLOW, flags.COUNT, flags.SINCE)),
    "ack": RemoteCommand(call=_ack, options=(flags.ALL, flags.REASON)),
    "rules test": RemoteCommand(call=_rules_test, options=(flags.SINCE,)),
    "run": RemoteCommand(
        call=_run,
        options=(
            *(flags.SCHEDULE, flags.QUEUE, flags.RESET, flags.REASON),
            *(flags.PROMPT, flags.PROMPT_FILE, flags.INPUT_FILE),
        ),
    ),
    "pause": _bulk("pause", **{"for": flags.FOR, "until": flags.UNTIL}),
    "resume": RemoteCommand(call=_resume, options=(flags.ACCOUNT, *_CONTROL)),
    "enable": _bulk("enable"),
    "disable": _bulk("disable"),
    "skip": _bulk("skip", count=flags.COUNT),
    "reset": _bulk("reset"),
    "hint": RemoteCommand(
        call=_hint, options=(flags.EVERY, flags.AT, flags.FOR, flags.CLEAR, flags.LIST, flags.HINT_ID, *_CONTROL)
    ),
    "cancel": RemoteCommand(call=_change_runs("cancel"), options=(flags.FORCE, *_CONTROL)),
    "retry": RemoteCommand(call=_change_runs("retry"), options=(flags.FORCE, flags.REASON)),
    "backfill": RemoteCommand(
        call=_backfill, options=(flags.FROM, flags.UNTIL, flags.MAX, flags.DRY_RUN, flags.REASON)
    ),
    "create": RemoteCommand(call=_create, options=_TRIGGER),
    "update": RemoteCommand(call=_update, options=(*_TRIGGER, flags.ENABLED)),
    "delete": RemoteCommand(call=_delete, options=(flags.REASON,)),
    "apply": RemoteCommand(call=_apply, options=(flags.DRY_RUN,)),
    "config show": RemoteCommand(call=_get("/config")),
    "webhook refused": RemoteCommand(call=_get("/refused-calls", selector="schedule")),
    "token create": RemoteCommand(call=_token_create, options=(flags.SCOPE, flags.EXPIRES, flags.REASON)),
    "token list": RemoteCommand(call=_get("/tokens")),
    "token revoke": RemoteCommand(
        call=lambda request: request.server.delete(f"/tokens/{_segment(request.args.positionals[0])}"),
    ),
    "pauses": RemoteCommand(call=_pauses, options=(flags.ALL, flags.COUNT)),
    "notify": RemoteCommand(call=_notify, options=(flags.ALL, flags.COUNT)),
    "planner": RemoteCommand(call=_get("/planner/sessions", selector="group"), options=(flags.COUNT,)),
    "planner show": RemoteCommand(
        call=lambda request: request.server.get(f"/planner/sessions/{_segment(request.args.positionals[0])}"),
    ),
}
"""By the name of the command. What is not here works on this machine only."""

NOT_REMOTE = frozenset(
    {
        *(
            "init",
            "up",
            "serve",
            "mcp",
            "exec",
            "down",
            "validate",
            "schema",
            "completion",
            "import",
            "export",
            "replay",
            "simulate",
        ),
        *("doctor", "state", "agent test", "workspaces", "webhook test", "notify test", "notify ack", "notify snooze"),
        *("pauses cancel", "service install", "service remove", "service status"),
        *("db backup", "db restore", "db copy", "db prune", "db check"),
    }
)
"""Commands about this machine: its files, its processes, its services, its ledger file."""
