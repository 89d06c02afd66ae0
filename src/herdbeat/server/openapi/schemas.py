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
    array_of,
    example,
    extend,
    fields,
    items,
    nullable,
    one_of,
    ref,
)
from herdbeat.service.queries.agents import CostGrouping
from herdbeat.service.queries.hints import HintState
from herdbeat.service.queries.nodes import NodeState
from herdbeat.service.queries.schedule_state import DisplayState

_STATUS, _SOURCE, _OUTCOME = one_of(RunStatus), one_of(Source), one_of(BeatOutcome)
_PERCENTILES = fields(p50=nullable(NUMBER), p95=nullable(NUMBER))
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
    finished_at=nullable(TIME),
    code=nullable(WHOLE),
    error=nullable(TEXT),
    summary=nullable(TEXT),
    note=TEXT,
    source=_SOURCE,
    origin=ORIGIN,
    due_at=TIME,
    dedup_id=example(TEXT, "cron:2026-03-26T09:00:00Z"),
    beat=ID,
    error_code=nullable(example(TEXT, "rate_limited")),
    quiet=BOOL,
    empty_answer=BOOL,
    needs_you=array_of(example(TEXT, "Bash: git push")),
    session_id=nullable(TEXT),
    branch=nullable(TEXT),
    usage=_USAGE,
)
REQUEST = fields(prompt=nullable(example(TEXT, "Look only at issue 12.")), input=ANY, reason=nullable(TEXT))
BEAT = fields(
    id=ID,
    schedule=LABEL,
    due_at=TIME,
    last_due_at=TIME,
    count=example(WHOLE, 1),
    outcome=_OUTCOME,
    result=nullable(_STATUS),
    reason=example(TEXT, "at_capacity"),
    source=_SOURCE,
    origin=ORIGIN,
    dedup_id=TEXT,
    runs=array_of(ID),
)
STEP = fields(
    name=example(TEXT, "Bash"),
    detail=example(TEXT, "gh issue list"),
    started_at=nullable(TIME),
    ended_at=nullable(TIME),
    ok=nullable(BOOL),
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
    run_status=nullable(_STATUS),
    attempt=WHOLE,
    max_attempts=WHOLE,
    claimed_at=nullable(TIME),
    offered_at=nullable(TIME),
    ended_at=nullable(TIME),
    reason=TEXT,
    tries=WHOLE,
    next_try_at=nullable(TIME),
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
    next_at=nullable(TIME),
    ended_at=nullable(TIME),
    error=nullable(TEXT),
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
    item=nullable(ref("WorkItem")),
    hooks=array_of(ref("Delivery")),
    attempts=array_of(ref("Run")),
    beat_outcome=_OUTCOME,
    request=nullable(ref("RunRequest")),
    answer=TEXT,
    model=TEXT,
    account=TEXT,
    turns=nullable(WHOLE),
    prompt=TEXT,
    steps_left_out=WHOLE,
    steps=array_of(ref("Step")),
)
HINT = fields(
    id=WHOLE,
    schedule=LABEL,
    state=one_of(HintState),
    every=nullable(DURATION),
    every_s=nullable(NUMBER),
    at=nullable(TIME),
    origin=ORIGIN,
    reason=TEXT,
    created_at=TIME,
    expires_at=TIME,
    ended_at=nullable(TIME),
    ended_by=TEXT,
)
ACCOUNT_HOLD = fields(
    account=example(TEXT, "team"),
    model=nullable(TEXT),
    began_at=TIME,
    until=TIME,
    stated=BOOL,
    run=ID,
    text=TEXT,
)
_RETRY = fields(attempt=WHOLE, attempts=WHOLE, at=nullable(TIME))
SCHEDULE = fields(
    schedule=LABEL,
    target=example(TEXT, "triage"),
    name=example(TEXT, "check-issues"),
    state=one_of(DisplayState),
    trigger={"type": "object", "examples": [{"kind": "interval", "every": "5m"}]},
    when=example(TEXT, "every 5m"),
    interval_s=nullable(example(NUMBER, 300)),
    timezone=example(TEXT, "Europe/Berlin"),
    tags=array_of(TEXT),
    group=nullable(TEXT),
    enabled=BOOL,
    disabled_by=nullable(TEXT),
    paused=BOOL,
    paused_until=nullable(TIME),
    paused_by=TEXT,
    paused_reason=TEXT,
    quarantine=nullable(TEXT),
    next_run_at=nullable(TIME),
    due_at=nullable(TIME),
    starts_at=nullable(TIME),
    source=nullable(_SOURCE),
    origin=TEXT,
    last_started_at=nullable(TIME),
    last_run_at=nullable(TIME),
    last_status=nullable(_STATUS),
    last_error=nullable(TEXT),
    failures=WHOLE,
    running=WHOLE,
    waiting=WHOLE,
    retry=nullable(_RETRY),
    planned_pauses=array_of(FREE),
    written_at=example(TEXT, "herdbeat.yaml:8:7"),
)
SUMMARY = extend(
    SCHEDULE,
    pace=nullable(fields(every=DURATION, every_s=NUMBER, origin=ORIGIN, reason=TEXT)),
    recent=array_of(fields(beat=ID, outcome=_OUTCOME, status=nullable(_STATUS))),
    account_hold=nullable(ref("AccountHold")),
)
SCHEDULE_DETAILS = extend(
    SCHEDULE,
    kind=one_of(TargetKind),
    prompt=nullable(TEXT),
    next=array_of(TIME),
    hints=array_of(ref("Hint")),
    policies={"type": "object", "additionalProperties": fields(value=TEXT, default=BOOL)},
    runs=array_of(ref("Run")),
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
    budget=nullable(example(TEXT, "$5 a day")),
    written_at=TEXT,
    schedules=array_of(ref("Schedule")),
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
    next_run_at=nullable(TIME),
    source=nullable(_SOURCE),
    origin=TEXT,
    state=nullable(one_of(DisplayState)),
    steps=array_of(_TRACE_STEP),
    scheduler=fields(running=BOOL),
    gates=array_of(
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
    hints=array_of(ref("Hint")),
    rules=array_of(ref("RuleStep")),
    last=nullable(TEXT),
    then=array_of(TIME),
    facts=array_of(fields(about=TEXT, text=TEXT)),
    fix=TEXT,
    beat=nullable(ref("Beat")),
    run=nullable(ref("Run")),
    text=example(TEXT, "next run in 30s because rule surge asks for every 30s"),
)
UPCOMING = fields(
    from_=TIME,
    until=nullable(TIME),
    timezone=TEXT,
    trigger=nullable(FREE),
    items=array_of(
        fields(
            schedule=nullable(LABEL),
            due_at=TIME,
            starts_at=TIME,
            next_run_at=TIME,
            local=TEXT,
            source=nullable(_SOURCE),
            notes=array_of(TEXT),
            steps=array_of(_TRACE_STEP),
        )
    ),
    idle=array_of(fields(schedule=LABEL, standing=TEXT, reason=TEXT)),
)
STATS = fields(
    schedule=LABEL,
    window=example(TEXT, "24h"),
    since=TIME,
    until=TIME,
    beats={"type": "object", "examples": [{"ran": 287, "skipped": 1}]},
    runs={"type": "object", "examples": [{"succeeded": 286, "failed": 1}]},
    success_rate=nullable(NUMBER),
    wait_s=nullable(_PERCENTILES),
    duration_s=nullable(_PERCENTILES),
    lateness_s=nullable(_PERCENTILES),
    nominal_interval_s=nullable(NUMBER),
    effective_interval_s=nullable(NUMBER),
    cost_usd=nullable(NUMBER),
    is_complete=BOOL,
)
ATTENTION = fields(run=ID, schedule=LABEL, what=array_of(TEXT), at=TIME)
STATUS = fields(
    fleet=example(TEXT, "my-fleet"),
    now=TIME,
    scheduler=fields(running=BOOL, pid=nullable(WHOLE), since=nullable(TIME), nodes=WHOLE, behind_s=nullable(NUMBER)),
    schedules=WHOLE,
    today=nullable(fields(usd=nullable(NUMBER), usd_per_day=nullable(NUMBER))),
    running=array_of(ref("Run")),
    cut_off=array_of(ref("Run")),
    late=array_of(fields(schedule=LABEL, due_at=TIME, reason=TEXT, detail=TEXT)),
    failing=array_of(fields(schedule=LABEL, failures=WHOLE, error=nullable(TEXT), retry=nullable(_RETRY))),
    held=array_of(fields(schedule=LABEL, state=TEXT, until=nullable(TIME), by=TEXT, reason=TEXT)),
    needs_you=array_of(ref("Attention")),
    accounts=array_of(ref("AccountHold")),
    over_budget=array_of(fields(schedule=LABEL, until=TIME)),
    next=array_of(fields(schedule=LABEL, next_run_at=nullable(TIME), source=nullable(_SOURCE))),
)
CHANGE = fields(
    id=ID, at=TIME, who=ORIGIN, what=one_of(ChangeKind), subject=LABEL, before=nullable(FREE), after=nullable(FREE)
)
NODE = fields(
    id=ID,
    host=TEXT,
    pid=WHOLE,
    version=TEXT,
    state=one_of(NodeState),
    works=BOOL,
    labels=array_of(TEXT),
    running=WHOLE,
    started_at=TIME,
    seen_at=TIME,
    lease_until=nullable(TIME),
    stopped_at=nullable(TIME),
)
_COST_LINE = fields(
    optional=("schedule", "target", "day", *_TOKENS),
    schedule=LABEL,
    target=TEXT,
    day=TEXT,
    runs=WHOLE,
    usd=nullable(NUMBER),
    tokens=nullable(WHOLE),
    **_TOKENS,
    sources=array_of(one_of(SpendSource)),
    unknown_runs=WHOLE,
    notional=BOOL,
)
COSTS = fields(since=example(TEXT, "2026-03-20"), by=one_of(CostGrouping), items=array_of(_COST_LINE), total=_COST_LINE)
SESSION = fields(
    optional=_TOKENS,
    schedule=LABEL,
    runtime=example(TEXT, "claude"),
    session_id=TEXT,
    host=TEXT,
    created_at=TIME,
    last_used_at=TIME,
    runs=WHOLE,
    usd=nullable(NUMBER),
    tokens=nullable(WHOLE),
    **_TOKENS,
    in_use_by=nullable(ID),
    open=example(TEXT, "claude --resume s-7"),
)
TOKEN = fields(
    name=example(TEXT, "ci"),
    scope=example(TEXT, "operate"),
    valid=BOOL,
    created_at=TIME,
    created_by=TEXT,
    expires_at=nullable(TIME),
    revoked_at=nullable(TIME),
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
    warnings=array_of(TEXT),
    actions=array_of(
        fields(
            kind=one_of(ActionKind),
            schedule=LABEL,
            reason=TEXT,
            at=nullable(TIME),
            outcome=TEXT,
            every_s=nullable(NUMBER),
            for_s=nullable(NUMBER),
        )
    ),
    calls=array_of(fields(tool=TEXT, arguments=FREE, answer=TEXT, ok=BOOL)),
    usage=fields(input_tokens=WHOLE, output_tokens=WHOLE, usd=nullable(NUMBER)),
)
PLANNED_PAUSE = fields(
    id=WHOLE,
    state=one_of(("planned", "active", "over", "cancelled")),
    selection=example(TEXT, "--tag vendor-x"),
    names=array_of(TEXT),
    tags=array_of(TEXT),
    groups=array_of(TEXT),
    all=BOOL,
    from_=TIME,
    until=TIME,
    by=TEXT,
    reason=TEXT,
    schedules=WHOLE,
    created_at=TIME,
    ended_at=nullable(TIME),
    ended_by=nullable(TEXT),
)
EPISODE = fields(
    id=WHOLE,
    channel=TEXT,
    condition=one_of(ConditionKind),
    subject=TEXT,
    detail=TEXT,
    since=TIME,
    opened_at=nullable(TIME),
    ended_at=nullable(TIME),
    told_at=nullable(TIME),
    end_told_at=nullable(TIME),
    snoozed_until=nullable(TIME),
    acked_by=nullable(TEXT),
)
SPAN = fields(
    schedule=LABEL,
    outcome=_OUTCOME,
    due_at=TIME,
    last_due_at=nullable(TIME),
    count=WHOLE,
    status=nullable(_STATUS),
    started_at=nullable(TIME),
    finished_at=nullable(TIME),
)
RULE_TEST = fields(
    schedule=LABEL,
    runs=WHOLE,
    start=nullable(TIME),
    end=nullable(TIME),
    rules=array_of(fields(name=TEXT, outcomes=FREE, errors=FREE)),
    firings=array_of(fields(at=TIME, rule=TEXT, reads=FREE)),
    firings_left_out=WHOLE,
    pace_changes=WHOLE,
    flapping=WHOLE,
    triggered=FREE,
    paused_s=NUMBER,
    runs_per_day=fields(without_rules=nullable(NUMBER), with_rules=nullable(NUMBER)),
    warnings=array_of(TEXT),
)
PLAN = fields(
    items=array_of(FREE),
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
    "BeatDetails": extend(BEAT, runs=array_of(ref("Run")), request=nullable(ref("RunRequest"))),
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
    "Steps": fields(items=array_of(ref("Step")), left_out=WHOLE),
    "ConfigValues": fields(
        values=array_of(
            fields(
                path=TEXT, value=ANY, origin=TEXT, file=nullable(TEXT), line=nullable(WHOLE), column=nullable(WHOLE)
            )
        )
    ),
    "ScheduleRules": fields(
        schedule=LABEL, rules=array_of(fields(name=TEXT, when=TEXT, last=nullable(ref("RuleStep"))))
    ),
    "Notifications": fields(
        channels=array_of(TEXT), episodes=array_of(ref("Episode")), deliveries=array_of(ref("Delivery"))
    ),
    "BrowserSession": fields(
        name=ORIGIN,
        scopes=array_of(TEXT),
        target=nullable(TEXT),
        credential=example(TEXT, "token"),
        csrf_token=nullable(TEXT),
    ),
    "RefusedCalls": items(FREE),
    "Health": fields(ok=BOOL, reason=TEXT),
    "Instants": fields(schedule=LABEL, count=WHOLE, instants=array_of(TIME)),
}  # fmt: skip
