"""The objects of the API. They are those of `--json`; a test compares every answer with them, key by key."""

from herdbeat.domain.agent_run import SpendSource
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.notification import ConditionKind
from herdbeat.domain.planner import ActionKind, SessionStatus
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import TargetKind
from herdbeat.server.openapi.schema_types import (
    ANY,
    BOOL,
    DURATION,
    FREE,
    ID,
    LABEL,
    NUMBER,
    ORIGIN,
    TEXT,
    TIME,
    WHOLE,
    JsonSchema,
    example,
    extend,
    fields,
    items,
    many,
    maybe,
    one_of,
    ref,
)
from herdbeat.service.queries.agents import CostGrouping
from herdbeat.service.queries.hints import HintState
from herdbeat.service.queries.nodes import NodeState
from herdbeat.service.queries.schedule_state import DisplayState

_STATUS, _SOURCE, _OUTCOME = one_of(RunStatus), one_of(Source), one_of(BeatOutcome)
_PERCENTILES = fields(p50=maybe(NUMBER), p95=maybe(NUMBER))
_TOKENS = dict.fromkeys(("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"), WHOLE)
_USAGE = {"type": "object", "additionalProperties": True, "examples": [{"usd": 0.08, "tokens": 5210}]}
_AGENT_KEYS = ("error_code", "quiet", "empty_answer", "needs_you", "session_id", "branch", "usage")

RUN = fields(
    optional=_AGENT_KEYS,
    id=ID,
    schedule=LABEL,
    status=_STATUS,
    attempt=example(WHOLE, 1),
    started_at=TIME,
    finished_at=maybe(TIME),
    code=maybe(WHOLE),
    error=maybe(TEXT),
    summary=maybe(TEXT),
    note=TEXT,
    source=_SOURCE,
    origin=ORIGIN,
    due_at=TIME,
    dedup_id=example(TEXT, "cron:2026-03-26T09:00:00Z"),
    beat=ID,
    error_code=maybe(example(TEXT, "rate_limited")),
    quiet=BOOL,
    empty_answer=BOOL,
    needs_you=many(example(TEXT, "Bash: git push")),
    session_id=maybe(TEXT),
    branch=maybe(TEXT),
    usage=_USAGE,
)
REQUEST = fields(prompt=maybe(example(TEXT, "Look only at issue 12.")), input=ANY, reason=maybe(TEXT))
BEAT = fields(
    id=ID,
    schedule=LABEL,
    due_at=TIME,
    last_due_at=TIME,
    count=example(WHOLE, 1),
    outcome=_OUTCOME,
    result=maybe(_STATUS),
    reason=example(TEXT, "at_capacity"),
    source=_SOURCE,
    origin=ORIGIN,
    dedup_id=TEXT,
    runs=many(ID),
)
STEP = fields(
    name=example(TEXT, "Bash"),
    detail=example(TEXT, "gh issue list"),
    started_at=maybe(TIME),
    ended_at=maybe(TIME),
    ok=maybe(BOOL),
    is_subagent=BOOL,
)
WORK_ITEM = fields(
    item=example(TEXT, "acme/app#12"),
    title=TEXT,
    url=TEXT,
    source=example(TEXT, "github:acme/app"),
    state=example(TEXT, "claimed"),
    target=TEXT,
    schedule=LABEL,
    run=ID,
    run_status=maybe(_STATUS),
    attempt=WHOLE,
    max_attempts=WHOLE,
    claimed_at=maybe(TIME),
    offered_at=maybe(TIME),
    ended_at=maybe(TIME),
    reason=TEXT,
    tries=WHOLE,
    next_try_at=maybe(TIME),
    host=TEXT,
)
DELIVERY = fields(
    id=TEXT,
    channel=TEXT,
    kind=TEXT,
    name=TEXT,
    state=TEXT,
    attempts=WHOLE,
    type=ANY,
    created_at=TIME,
    next_at=maybe(TIME),
    ended_at=maybe(TIME),
    error=maybe(TEXT),
)
_REPORT_KEYS = ("answer", "model", "account", "turns", "prompt", "steps_left_out", "steps")
RUN_DETAILS = extend(
    RUN,
    optional=_REPORT_KEYS,
    node=fields(host=TEXT, pid=WHOLE, version=TEXT),
    executor=fields(kind=TEXT, place=TEXT, job=TEXT),
    response=ANY,
    usage=_USAGE,
    session=TEXT,
    item=maybe(ref("WorkItem")),
    hooks=many(ref("Delivery")),
    attempts=many(ref("Run")),
    beat_outcome=_OUTCOME,
    request=maybe(ref("RunRequest")),
    answer=TEXT,
    model=TEXT,
    account=TEXT,
    turns=maybe(WHOLE),
    prompt=TEXT,
    steps_left_out=WHOLE,
    steps=many(ref("Step")),
)
HINT = fields(
    id=WHOLE,
    schedule=LABEL,
    state=one_of(HintState),
    every=maybe(DURATION),
    every_s=maybe(NUMBER),
    at=maybe(TIME),
    origin=ORIGIN,
    reason=TEXT,
    created_at=TIME,
    expires_at=TIME,
    ended_at=maybe(TIME),
    ended_by=TEXT,
)
ACCOUNT_HOLD = fields(
    account=example(TEXT, "team"),
    model=maybe(TEXT),
    began_at=TIME,
    until=TIME,
    stated=BOOL,
    run=ID,
    text=TEXT,
)
_RETRY = fields(attempt=WHOLE, attempts=WHOLE, at=maybe(TIME))
SCHEDULE = fields(
    schedule=LABEL,
    target=example(TEXT, "triage"),
    name=example(TEXT, "check-issues"),
    state=one_of(DisplayState),
    trigger={"type": "object", "examples": [{"kind": "interval", "every": "5m"}]},
    when=example(TEXT, "every 5m"),
    interval_s=maybe(example(NUMBER, 300)),
    timezone=example(TEXT, "Europe/Berlin"),
    tags=many(TEXT),
    group=maybe(TEXT),
    enabled=BOOL,
    disabled_by=maybe(TEXT),
    paused=BOOL,
    paused_until=maybe(TIME),
    paused_by=TEXT,
    paused_reason=TEXT,
    quarantine=maybe(TEXT),
    next_run_at=maybe(TIME),
    due_at=maybe(TIME),
    starts_at=maybe(TIME),
    source=maybe(_SOURCE),
    origin=TEXT,
    last_started_at=maybe(TIME),
    last_run_at=maybe(TIME),
    last_status=maybe(_STATUS),
    last_error=maybe(TEXT),
    failures=WHOLE,
    running=WHOLE,
    waiting=WHOLE,
    retry=maybe(_RETRY),
    planned_pauses=many(FREE),
    written_at=example(TEXT, "herdbeat.yaml:8:7"),
)
SUMMARY = extend(
    SCHEDULE,
    pace=maybe(fields(every=DURATION, every_s=NUMBER, origin=ORIGIN, reason=TEXT)),
    recent=many(fields(beat=ID, outcome=_OUTCOME, status=maybe(_STATUS))),
    account_hold=maybe(ref("AccountHold")),
)
SCHEDULE_DETAILS = extend(
    SCHEDULE,
    kind=one_of(TargetKind),
    prompt=maybe(TEXT),
    next=many(TIME),
    hints=many(ref("Hint")),
    policies={"type": "object", "additionalProperties": fields(value=TEXT, default=BOOL)},
    runs=many(ref("Run")),
)
TARGET = fields(
    target=example(TEXT, "triage"),
    kind=one_of(TargetKind),
    max_concurrent=WHOLE,
    running=WHOLE,
    schedules=WHOLE,
    written_at=TEXT,
)
TARGET_DETAILS = fields(
    target=TEXT,
    kind=one_of(TargetKind),
    max_concurrent=WHOLE,
    running=WHOLE,
    budget=maybe(example(TEXT, "$5 a day")),
    written_at=TEXT,
    schedules=many(ref("Schedule")),
)
_TRACE_STEP = {"type": "object", "examples": [{"kind": "candidate", "text": "baseline every 5m", "won": True}]}
_RULE_STEP = fields(
    optional=("error", "matches", "for_runs"),
    name=example(TEXT, "surge"),
    outcome=example(TEXT, "fired"),
    reads={"type": "object", "examples": [{"response.queue_depth": 150}]},
    error=TEXT,
    matches=WHOLE,
    for_runs=WHOLE,
)
EXPLANATION = fields(
    schedule=LABEL,
    now=TIME,
    next_run_at=maybe(TIME),
    source=maybe(_SOURCE),
    origin=TEXT,
    state=maybe(one_of(DisplayState)),
    steps=many(_TRACE_STEP),
    scheduler=fields(running=BOOL),
    gates=many(
        fields(
            optional=("used", "max", "text", "opens_at"),
            gate=example(TEXT, "capacity"),
            ok=BOOL,
            used=NUMBER,
            max=NUMBER,
            text=TEXT,
            opens_at=TIME,
        )
    ),
    hints=many(ref("Hint")),
    rules=many(ref("RuleStep")),
    last=maybe(TEXT),
    then=many(TIME),
    facts=many(fields(about=TEXT, text=TEXT)),
    fix=TEXT,
    beat=maybe(ref("Beat")),
    run=maybe(ref("Run")),
    text=example(TEXT, "next run in 30s because rule surge asks for every 30s"),
)
UPCOMING = fields(
    from_=TIME,
    until=maybe(TIME),
    timezone=TEXT,
    trigger=maybe(FREE),
    items=many(
        fields(
            schedule=maybe(LABEL),
            due_at=TIME,
            starts_at=TIME,
            next_run_at=TIME,
            local=TEXT,
            source=maybe(_SOURCE),
            notes=many(TEXT),
            steps=many(_TRACE_STEP),
        )
    ),
    idle=many(fields(schedule=LABEL, standing=TEXT, reason=TEXT)),
)
STATS = fields(
    schedule=LABEL,
    window=example(TEXT, "24h"),
    since=TIME,
    until=TIME,
    beats={"type": "object", "examples": [{"ran": 287, "skipped": 1}]},
    runs={"type": "object", "examples": [{"succeeded": 286, "failed": 1}]},
    success_rate=maybe(NUMBER),
    wait_s=maybe(_PERCENTILES),
    duration_s=maybe(_PERCENTILES),
    lateness_s=maybe(_PERCENTILES),
    nominal_interval_s=maybe(NUMBER),
    effective_interval_s=maybe(NUMBER),
    cost_usd=maybe(NUMBER),
    is_complete=BOOL,
)
ATTENTION = fields(run=ID, schedule=LABEL, what=many(TEXT), at=TIME)
STATUS = fields(
    fleet=example(TEXT, "my-fleet"),
    now=TIME,
    scheduler=fields(running=BOOL, pid=maybe(WHOLE), since=maybe(TIME), nodes=WHOLE, behind_s=maybe(NUMBER)),
    schedules=WHOLE,
    today=maybe(fields(usd=maybe(NUMBER), usd_per_day=maybe(NUMBER))),
    running=many(ref("Run")),
    cut_off=many(ref("Run")),
    late=many(fields(schedule=LABEL, due_at=TIME, reason=TEXT, detail=TEXT)),
    failing=many(fields(schedule=LABEL, failures=WHOLE, error=maybe(TEXT), retry=maybe(_RETRY))),
    held=many(fields(schedule=LABEL, state=TEXT, until=maybe(TIME), by=TEXT, reason=TEXT)),
    needs_you=many(ref("Attention")),
    accounts=many(ref("AccountHold")),
    over_budget=many(fields(schedule=LABEL, until=TIME)),
    next=many(fields(schedule=LABEL, next_run_at=maybe(TIME), source=maybe(_SOURCE))),
)
CHANGE = fields(
    id=ID, at=TIME, who=ORIGIN, what=one_of(ChangeKind), subject=LABEL, before=maybe(FREE), after=maybe(FREE)
)
NODE = fields(
    id=ID,
    host=TEXT,
    pid=WHOLE,
    version=TEXT,
    state=one_of(NodeState),
    works=BOOL,
    labels=many(TEXT),
    running=WHOLE,
    started_at=TIME,
    seen_at=TIME,
    lease_until=maybe(TIME),
    stopped_at=maybe(TIME),
)
_COST_LINE = fields(
    optional=("schedule", "target", "day", *_TOKENS),
    schedule=LABEL,
    target=TEXT,
    day=TEXT,
    runs=WHOLE,
    usd=maybe(NUMBER),
    tokens=maybe(WHOLE),
    **_TOKENS,
    sources=many(one_of(SpendSource)),
    unknown_runs=WHOLE,
    notional=BOOL,
)
COSTS = fields(since=example(TEXT, "2026-03-20"), by=one_of(CostGrouping), items=many(_COST_LINE), total=_COST_LINE)
SESSION = fields(
    optional=_TOKENS,
    schedule=LABEL,
    runtime=example(TEXT, "claude"),
    session_id=TEXT,
    host=TEXT,
    created_at=TIME,
    last_used_at=TIME,
    runs=WHOLE,
    usd=maybe(NUMBER),
    tokens=maybe(WHOLE),
    **_TOKENS,
    in_use_by=maybe(ID),
    open=example(TEXT, "claude --resume s-7"),
)
TOKEN = fields(
    name=example(TEXT, "ci"),
    scope=example(TEXT, "operate"),
    valid=BOOL,
    created_at=TIME,
    created_by=TEXT,
    expires_at=maybe(TIME),
    revoked_at=maybe(TIME),
    revoked_by=TEXT,
)
PLANNER_SESSION = fields(
    id=WHOLE,
    group=example(TEXT, "shop"),
    model=TEXT,
    status=one_of(SessionStatus),
    started_at=TIME,
    finished_at=TIME,
    next_at=TIME,
    reasoning=TEXT,
    error=TEXT,
    warnings=many(TEXT),
    actions=many(
        fields(
            kind=one_of(ActionKind),
            schedule=LABEL,
            reason=TEXT,
            at=maybe(TIME),
            outcome=TEXT,
            every_s=maybe(NUMBER),
            for_s=maybe(NUMBER),
        )
    ),
    calls=many(fields(tool=TEXT, arguments=FREE, answer=TEXT, ok=BOOL)),
    usage=fields(input_tokens=WHOLE, output_tokens=WHOLE, usd=maybe(NUMBER)),
)
PLANNED_PAUSE = fields(
    id=WHOLE,
    state=one_of(("planned", "active", "over", "cancelled")),
    selection=example(TEXT, "--tag vendor-x"),
    names=many(TEXT),
    tags=many(TEXT),
    groups=many(TEXT),
    all=BOOL,
    from_=TIME,
    until=TIME,
    by=TEXT,
    reason=TEXT,
    schedules=WHOLE,
    created_at=TIME,
    ended_at=maybe(TIME),
    ended_by=maybe(TEXT),
)
EPISODE = fields(
    id=WHOLE,
    channel=TEXT,
    condition=one_of(ConditionKind),
    subject=TEXT,
    detail=TEXT,
    since=TIME,
    opened_at=maybe(TIME),
    ended_at=maybe(TIME),
    told_at=maybe(TIME),
    end_told_at=maybe(TIME),
    snoozed_until=maybe(TIME),
    acked_by=maybe(TEXT),
)
SPAN = fields(
    schedule=LABEL,
    outcome=_OUTCOME,
    due_at=TIME,
    last_due_at=maybe(TIME),
    count=WHOLE,
    status=maybe(_STATUS),
    started_at=maybe(TIME),
    finished_at=maybe(TIME),
)
RULE_TEST = fields(
    schedule=LABEL,
    runs=WHOLE,
    start=maybe(TIME),
    end=maybe(TIME),
    rules=many(fields(name=TEXT, outcomes=FREE, errors=FREE)),
    firings=many(fields(at=TIME, rule=TEXT, reads=FREE)),
    firings_left_out=WHOLE,
    pace_changes=WHOLE,
    flapping=WHOLE,
    triggered=FREE,
    paused_s=NUMBER,
    runs_per_day=fields(without_rules=maybe(NUMBER), with_rules=maybe(NUMBER)),
    warnings=many(TEXT),
)
PLAN = fields(
    items=many(FREE),
    added=WHOLE,
    changed=WHOLE,
    removed=WHOLE,
    warnings=WHOLE,
    runs_per_day=FREE,
    applied=BOOL,
)

OBJECTS: dict[str, JsonSchema] = {
    "Run": RUN,
    "RunDetails": RUN_DETAILS,
    "RunRequest": REQUEST,
    "Beat": BEAT,
    "BeatDetails": extend(BEAT, runs=many(ref("Run")), request=maybe(ref("RunRequest"))),
    "Step": STEP,
    "WorkItem": WORK_ITEM,
    "Delivery": DELIVERY,
    "Hint": HINT,
    "AccountHold": ACCOUNT_HOLD,
    "Schedule": SCHEDULE,
    "ScheduleSummary": SUMMARY,
    "ScheduleDetails": SCHEDULE_DETAILS,
    "Target": TARGET,
    "TargetDetails": TARGET_DETAILS,
    "RuleStep": _RULE_STEP,
    "Explanation": EXPLANATION,
    "Upcoming": UPCOMING,
    "Stats": STATS,
    "Attention": ATTENTION,
    "Status": STATUS,
    "Change": CHANGE,
    "Node": NODE,
    "Costs": COSTS,
    "AgentSession": SESSION,
    "Token": TOKEN,
    "PlannedPause": PLANNED_PAUSE,
    "PlannerSession": PLANNER_SESSION,
    "Episode": EPISODE,
    "Span": SPAN,
    "RuleTest": RULE_TEST,
    "Plan": PLAN,
    "Answer": fields(run=ID, answer=TEXT, model=TEXT, quiet=BOOL, empty_answer=BOOL),
    "Steps": fields(items=many(ref("Step")), left_out=WHOLE),
    "ConfigValues": fields(
        values=many(
            fields(
                path=TEXT, value=ANY, origin=TEXT, file=maybe(TEXT), line=maybe(WHOLE), column=maybe(WHOLE)
            )
        )
    ),
    "ScheduleRules": fields(
        schedule=LABEL, rules=many(fields(name=TEXT, when=TEXT, last=maybe(ref("RuleStep"))))
    ),
    "Notifications": fields(
        channels=many(TEXT), episodes=many(ref("Episode")), deliveries=many(ref("Delivery"))
    ),
    "BrowserSession": fields(
        name=ORIGIN,
        scopes=many(TEXT),
        target=maybe(TEXT),
        credential=example(TEXT, "token"),
        csrf_token=maybe(TEXT),
    ),
    "RefusedCalls": items(FREE),
    "Health": fields(ok=BOOL, reason=TEXT),
    "Instants": fields(schedule=LABEL, count=WHOLE, instants=many(TIME)),
}  # fmt: skip
