"""One value of everything that is stored, with no field at its default, because defaults are not stored."""

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.decision import Decision, Source, StepKind, TraceStep
from herdbeat.domain.executor import ExecutorKind, Resources
from herdbeat.domain.hint import Hint
from herdbeat.domain.isolation import Access, ContainerNetwork, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import (
    ActiveHours,
    Backoff,
    Bounds,
    Budget,
    Catchup,
    FirstRun,
    Jitter,
    Limits,
    OnInterrupt,
    Overlap,
    Policies,
    Retry,
)
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import (
    AgentSpec,
    CallableSpec,
    CommandSpec,
    EndpointSpec,
    OnDenied,
    TargetSpec,
    ToolMode,
    ToolPolicy,
)
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.domain.workspace import KeepPolicy, WorkspaceSpec, WorkspaceType
from herdbeat.governor import Pause, ScheduleState
from herdbeat.triggers import Chat, Cron, Delay, Interval, Manual, Webhook

NOW = datetime(2026, 3, 26, 13, 4, 5, 250_000, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")

TRIGGERS: Mapping[str, Trigger] = {
    "interval": Interval(every=90 * MINUTE),
    "cron": Cron.parse("0 9 * * 1-5", BERLIN),
    "delay": Delay(run_at=NOW, arm=3),
    "webhook": Webhook(),
    "chat": Chat(),
    "manual": Manual(),
}

BUDGET = Budget(usd_per_day=2.5, tokens_per_day=100_000, runs_per_day=20, usd_per_run=0.5)

POLICIES = Policies(
    zone=BERLIN,
    timeout=30 * MINUTE,
    catchup=Catchup.ALL,
    overlap=Overlap.QUEUE_ALL,
    catchup_max=7,
    grace=MINUTE,
    max_late=5 * MINUTE,
    late_after=2 * MINUTE,
    jitter=Jitter(share=0.25, span=MINUTE),
    limits=Limits(at_least=MINUTE, at_most=60 * MINUTE),
    backoff=Backoff(factor=3, max_failures=4),
    retry=Retry(attempts=3, wait=MINUTE, factor=4),
    pause_after_failures=9,
    bounds=Bounds(starts_at=NOW, ends_at=NOW + 60 * MINUTE, max_runs=12),
    active_hours=ActiveHours(opens=time(8, 30), closes=time(18), zone=BERLIN),
    budget=BUDGET,
    precheck=("test", "-e", "inbox"),
    priority=5,
    tags=("nightly", "slow"),
    group="reports",
    runs_on="gpu",
    dedup="{{ item.id }}",
    when="item.open",
    max_queued=3,
    wakes_per_day=7,
    first_run=FirstRun.AFTER_INTERVAL,
    on_interrupt=OnInterrupt.RETRY,
    adapt=({"when": "failures > 2", "every": "1h"},),
    variables=("CHECK_TOKEN",),
)

SCHEDULE_SPECS: Mapping[str, ScheduleSpec] = {
    kind: ScheduleSpec(trigger=each, policies=POLICIES) for kind, each in TRIGGERS.items()
}

WORKSPACE = WorkspaceSpec(
    type=WorkspaceType.WORKTREE, base="origin/main", keep=KeepPolicy.ALWAYS, prune_after=60 * MINUTE
)
ISOLATION = IsolationSpec(
    type=IsolationType.DOCKER,
    network=False,
    workspace=Access.READ_ONLY,
    credentials=Access.READ_WRITE,
    read_only=("/data",),
    read_write=("/out",),
    container=ContainerSettings(
        engine="podman",
        image="agent:1",
        network=ContainerNetwork.NONE,
        user="1000:1000",
        memory="1g",
        cpu_shares=512,
        cpu_period=100_000,
        cpu_quota=50_000,
        pids_limit=99,
        tmpfs=("/tmp",),
        volumes=("/data:/data:ro",),
        ports=("8080:80",),
        labels={"team": "blue"},
        env={"MODE": "test"},
        host_config={"ShmSize": 64},
    ),
)

RUN_SPEC = RunSpec(
    prompt="Look at it.",
    work_source={"kind": "github"},
    resume_session=True,
    output_to_file=True,
    workspace=WORKSPACE,
    isolation=ISOLATION,
    tool_policy=ToolPolicy(mode=ToolMode.DENY_LIST, tools=("WebFetch",)),
    on_denied=OnDenied.FAIL,
    account="team",
    session_timeout=60 * MINUTE,
    variables=("API_TOKEN",),
)

RESOURCES = Resources(
    cpus=1.5,
    memory=2 * 1024**3,
    gpu=1,
    image="agents:1",
    node_selector={"pool": "gpu"},
    start_timeout=7 * MINUTE,
)

TARGET_SPECS: Mapping[str, TargetSpec] = {
    "agent": AgentSpec(
        runtime="claude",
        working_directory="work",
        command=("claude", "-p"),
        env=("TOKEN",),
        env_values={"MODE": "test"},
        default_prompt="Go on.",
        system_prompt="You are careful.",
        model="large",
        max_turns=12,
        permission_mode="plan",
        tools=("Read",),
        allowed_tools=("Bash",),
        denied_tools=("Write",),
        mcp_servers={"files": {"command": "mcp-files"}},
        plugins=("lint",),
        setting_sources=("user",),
        tool_policy=ToolPolicy(mode=ToolMode.REQUIRE_APPROVAL, tools=("Bash",)),
        program="/opt/claude",
        preset={"like": "claude"},
        account="team",
        on_denied=OnDenied.FAIL,
        extra_dirs=("/srv",),
        append_system_prompt="Be brief.",
        session_timeout=60 * MINUTE,
        session_max_turns=40,
        repo="owner/name",
        metadata_file="about.json",
        docker={"image": "agent:1"},
        workspace=WORKSPACE,
        isolation=ISOLATION,
        chat={"slack": {"channel": "C1"}},
        allow_create=True,
        executor=ExecutorKind.KUBERNETES,
        resources=RESOURCES,
        variables=("API_TOKEN",),
    ),
    "endpoint": EndpointSpec(
        url="https://example.org/hook",
        method="POST",
        headers={"X-Key": "k"},
        body={"a": [1, None]},
        ok="status",
        variables=("API_TOKEN",),
    ),
    "command": CommandSpec(
        command=("make", "report"),
        working_directory="jobs",
        env=("HOME",),
        env_values={"LANG": "C.UTF-8"},
        executor=ExecutorKind.RAY,
        resources=RESOURCES,
        variables=("API_TOKEN",),
    ),
    "callable": CallableSpec(call="jobs:tidy", variables=("API_TOKEN",)),
}

HINTS = (
    Hint(origin="human:you", expires_at=NOW + 60 * MINUTE, every=10 * MINUTE, reason="surge", created_at=NOW),
    Hint(origin="agent:triage", expires_at=NOW + 60 * MINUTE, at=NOW + MINUTE, reason="look again", created_at=NOW),
)

STATE = ScheduleState(
    schedule="triage/hourly",
    timing=SCHEDULE_SPECS["interval"].timing,
    anchor_at=NOW - MINUTE,
    is_new=True,
    failures=2,
    runs=11,
    hints=HINTS,
    pause=Pause(until=NOW + MINUTE, by="human:you", reason="release"),
    enabled=False,
    not_before=NOW + 3 * MINUTE,
    windows=(PauseWindow(id=4, from_at=NOW, until=NOW + MINUTE, by="human:you", reason="database"),),
)

DECISION = Decision(
    next_run_at=NOW + MINUTE,
    source=Source.CLAMPED_MIN,
    trace=(
        TraceStep(StepKind.CANDIDATE, "baseline every 5m", NOW, Source.BASELINE_INTERVAL),
        TraceStep(StepKind.CANDIDATE, "hint every 5s", NOW, Source.AI_INTERVAL, "rule:surge", won=True),
        TraceStep(StepKind.CLAMP, "min_interval 15s moves it later", NOW + MINUTE, Source.CLAMPED_MIN),
        TraceStep(StepKind.NOTE, "a limit cuts the backoff short"),
    ),
    due_at=NOW,
    revisit_at=NOW + 2 * MINUTE,
    origin="rule:surge",
)
PLAIN_DECISION = Decision(
    next_run_at=NOW,
    source=Source.BASELINE_CRON,
    trace=(TraceStep(StepKind.CANDIDATE, 'baseline "at 9"', NOW, Source.BASELINE_CRON, won=True),),
    due_at=NOW,
)
