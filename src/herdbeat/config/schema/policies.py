"""The policies of a schedule: every key, once. Loader, `show`, JSON Schema and the reference follow this table."""

from herdbeat.config.schema.formats import (
    ARGV,
    DURATION,
    EVENT_EXPRESSION,
    EXPRESSION,
    HOURS,
    JITTER,
    NAME,
    TEXT,
    TIMESTAMP,
    ZONE,
)
from herdbeat.config.schema.rules import RULE
from herdbeat.config.schema.table import Field, ListOf, SpecialDefault, Table, optional_field
from herdbeat.config.schema.types import EnumValue, Integer, Number
from herdbeat.domain.policies import Catchup, FirstRun, OnInterrupt, Overlap
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind

_FACTOR = Field("factor", Integer(1, 10), "Factor by which each failure multiplies the wait.", "2")
_MAX_FAILURES = Field("max_failures", Integer(0, 20), "Number of failures after which the interval stops growing.", "5")
BACKOFF_TABLE = Table("A backoff", _FACTOR, _MAX_FAILURES)
BACKOFF = Field(
    "backoff", BACKOFF_TABLE, "How the interval grows after consecutive failures.", unset="factor 2, 5 failures"
)
_ATTEMPTS = Field("attempts", Integer(1, 100), "Maximum attempts per beat, including the first.", "1")
_WAIT = Field("wait", DURATION, "Wait before the second attempt.", "30s")
RETRY_TABLE = Table("A retry", _ATTEMPTS, _WAIT, _FACTOR)
RETRY = Field("retry", RETRY_TABLE, "Retries of a failed beat.", unset="1 attempt")
_USD = Field("usd_per_day", Number(0, 1_000_000), "Maximum cost per day, in US dollars.")
_TOKENS = Field("tokens_per_day", Integer(0, 10**12), "Maximum tokens per day.")
_RUNS = Field("runs_per_day", Integer(0, 1_000_000), "Maximum runs per day.")
_USD_PER_RUN = Field("usd_per_run", Number(0, 1_000_000), "Cost at which the CLI of an agent ends its run.")
BUDGET_TABLE = Table("A budget", _USD, _TOKENS, _RUNS, _USD_PER_RUN)
BUDGET = optional_field("budget", BUDGET_TABLE, "Daily limits; beats over a limit are skipped.")

_EVENT_KINDS = frozenset(kind for kind in TriggerKind if kind.waits_for_event)
_EVENT_OVERLAP = SpecialDefault("event kinds", _EVENT_KINDS, "queue_all")
_CRON_CATCHUP = SpecialDefault("cron", frozenset({TriggerKind.CRON}), "skip")
_ENDPOINT_TIMEOUT = SpecialDefault("endpoints", frozenset({TargetKind.ENDPOINT}), "30s")
_AGENT_SPREAD = SpecialDefault(
    "intervals of agents", frozenset({TargetKind.AGENT, TriggerKind.INTERVAL}), "auto", needs_all=True
)
TIMEZONE = Field(
    "timezone", ZONE, "Time zone of cron, active hours and budget days.", unset="the fleet's", domain_field="zone"
)
MIN_INTERVAL = optional_field(
    "min_interval", DURATION, "Minimum time between runs; overrides hints and backoff.", domain_field="limits.at_least"
)
MAX_INTERVAL = optional_field(
    "max_interval", DURATION, "Maximum time between runs; overrides hints and backoff.", domain_field="limits.at_most"
)
MAX_RUNS = optional_field(
    "max_runs", Integer(1), "Number of runs after which the schedule expires.", domain_field="bounds.max_runs"
)
STARTS_AT = optional_field(
    "starts_at", TIMESTAMP, "Time before which the schedule is not due.", domain_field="bounds.starts_at"
)
ENDS_AT = optional_field(
    "ends_at", TIMESTAMP, "Time after which the schedule expires.", aliases=("expires",), domain_field="bounds.ends_at"
)
DEDUP = optional_field(
    "dedup", EXPRESSION, "Event triggers: template of the id that makes a delivery unique.", "its delivery id"
)
WHEN = optional_field("when", EVENT_EXPRESSION, "Event triggers: condition; other events are skipped.", "all")
MAX_QUEUED = optional_field(
    "max_queued", Integer(1, 1_000_000), "Maximum number of waiting beats of events.", "no limit"
)
FIRST_RUN = Field("first_run", EnumValue(FirstRun), "When a new interval schedule is first due.", "now")
ADAPT = optional_field("adapt", ListOf(RULE), "Rules that turn results into hints.")
WAKES_PER_DAY = Field("wakes_per_day", Integer(0, 10_000), "How often a day an agent may ask to be woken.", "48")

PRECHECK = optional_field(
    "precheck", ARGV, "Command that runs before each run: exit status 0 runs the beat, 1 skips it."
)
POLICIES: tuple[Field[object], ...] = (
    TIMEZONE,
    Field(
        "catchup",
        EnumValue(Catchup),
        "How to handle beats missed while the scheduler was not running.",
        "once",
        _CRON_CATCHUP,
    ),
    Field("catchup_max", Integer(1, 10_000), "Maximum number of beats that `catchup: all` runs.", "100"),
    Field("grace", DURATION, "The newest missed beat still runs if it is at most this late.", "30s"),
    optional_field("max_late", DURATION, "Maximum delay; later beats are recorded as missed (too_late)."),
    Field(
        "overlap", EnumValue(Overlap), "What to do when a beat is due while a run is active.", "skip", _EVENT_OVERLAP
    ),
    Field(
        "jitter",
        JITTER,
        "Deterministic delay of each start: a percentage of the interval, a duration, or auto (1%, at most 10s).",
        special_default=_AGENT_SPREAD,
        nullable=True,
        unset="0",
    ),
    *(MIN_INTERVAL, MAX_INTERVAL, BACKOFF, RETRY),
    Field("timeout", DURATION, "Maximum duration of a run.", "1h", _ENDPOINT_TIMEOUT),
    Field("late_after", DURATION, "Delay after which a beat is reported as late.", "30s"),
    optional_field(
        "pause_after_failures",
        Integer(1, 1_000_000),
        "Number of consecutive failures after which the schedule is paused.",
    ),
    *(MAX_RUNS, STARTS_AT, ENDS_AT),
    optional_field(
        "active_hours", HOURS, "Time range in which beats run; outside it they are skipped as inactive_hours.", "always"
    ),
    BUDGET,
    PRECHECK,
    Field("priority", Integer(-1_000_000, 1_000_000), "Order when capacity is limited; higher values go first.", "0"),
    optional_field("tags", ListOf(TEXT), "Tags for selecting schedules."),
    optional_field("group", NAME, "Group of schedules whose rules can refer to each other."),
    optional_field("runs_on", TEXT, "Only nodes with this label run it.", "any node"),
    *(DEDUP, WHEN, MAX_QUEUED, FIRST_RUN),
    Field("on_interrupt", EnumValue(OnInterrupt), "What to do with a run whose node died.", "skip"),
    ADAPT,
    WAKES_PER_DAY,
)
POLICY_KEY_NAMES = frozenset(name for key in POLICIES for name in (key.name, *key.aliases))

FOREIGN_KEY_SUGGESTIONS = {
    **dict.fromkeys(("catchup_window", "misfire_grace_time"), "max_late"),
    **dict.fromkeys(("tz", "time_zone", "zone"), "timezone"),
    "concurrency": "overlap",
    "coalesce": "catchup",
    "quiet_hours": "active_hours",
    "retries": "retry",
    **dict.fromkeys(("once", "run_in"), "at"),
    "schedule": "cron",
    "cost": "budget",
}
"""Names that other tools and older pages use, with ours."""
