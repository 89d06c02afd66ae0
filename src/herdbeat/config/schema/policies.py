"""The policies of a schedule: every key, once. Loader, `show`, JSON Schema and the reference follow this table."""

from herdbeat.config.schema.formats import ARGV, DURATION, EXPRESSION, HOURS, JITTER, NAME, TEXT, TIMESTAMP, ZONE
from herdbeat.config.schema.rules import RULE
from herdbeat.config.schema.table import Field, ListOf, SpecialDefault, Table, optional_field
from herdbeat.config.schema.types import EnumValue, Integer, Number
from herdbeat.domain.policies import Catchup, FirstRun, OnInterrupt, Overlap
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind

_FACTOR = Field("factor", Integer(1, 10), "Each failure multiplies the wait by this.", "2")
_MAX_FAILURES = Field("max_failures", Integer(0, 20), "Failures after which the wait grows no further.", "5")
BACKOFF_TABLE = Table("A backoff", _FACTOR, _MAX_FAILURES)
BACKOFF = Field("backoff", BACKOFF_TABLE, "How an interval stretches while it fails.", unset="factor 2, 5 failures")
_ATTEMPTS = Field("attempts", Integer(1, 100), "How often one beat is tried, the first time included.", "1")
_WAIT = Field("wait", DURATION, "Time before the second attempt.", "30s")
RETRY_TABLE = Table("A retry", _ATTEMPTS, _WAIT, _FACTOR)
RETRY = Field("retry", RETRY_TABLE, "More attempts at the same beat, before the next.", unset="1 attempt")
_USD = Field("usd_per_day", Number(0, 1_000_000), "US dollars a day may cost.")
_TOKENS = Field("tokens_per_day", Integer(0, 10**12), "Tokens a day may use.")
_RUNS = Field("runs_per_day", Integer(0, 1_000_000), "Runs a day may have.")
BUDGET_TABLE = Table("A budget", _USD, _TOKENS, _RUNS)
BUDGET = optional_field("budget", BUDGET_TABLE, "What a day may cost; over it, beats are skipped.")

_EVENT_KINDS = frozenset(kind for kind in TriggerKind if kind.waits_for_event)
_EVENT_OVERLAP = SpecialDefault("event kinds", _EVENT_KINDS, "queue_all")
_CRON_CATCHUP = SpecialDefault("cron", frozenset({TriggerKind.CRON}), "skip")
_ENDPOINT_TIMEOUT = SpecialDefault("endpoints", frozenset({TargetKind.ENDPOINT}), "30s")
_AGENT_SPREAD = SpecialDefault(
    "intervals of agents", frozenset({TargetKind.AGENT, TriggerKind.INTERVAL}), "auto", needs_all=True
)
TIMEZONE = Field(
    "timezone", ZONE, "The zone of cron, active hours and budget days.", unset="the fleet's", domain_field="zone"
)
MIN_INTERVAL = optional_field(
    "min_interval", DURATION, "Never closer together; beats hints and backoff.", domain_field="limits.at_least"
)
MAX_INTERVAL = optional_field(
    "max_interval", DURATION, "Never further apart; beats hints and backoff.", domain_field="limits.at_most"
)
MAX_RUNS = optional_field("max_runs", Integer(1), "Runs after which it is expired.", domain_field="bounds.max_runs")
STARTS_AT = optional_field(
    "starts_at", TIMESTAMP, "Before this moment nothing is due.", domain_field="bounds.starts_at"
)
ENDS_AT = optional_field(
    "ends_at", TIMESTAMP, "After this moment it is expired.", aliases=("expires",), domain_field="bounds.ends_at"
)
DEDUP = optional_field("dedup", EXPRESSION, "Event kinds: what makes a delivery unique.", "its delivery id")
WHEN = optional_field("when", EXPRESSION, "Event kinds: only events for which this holds run.", "all")
MAX_QUEUED = optional_field("max_queued", Integer(1, 1_000_000), "Event kinds: how many may wait.", "no limit")
FIRST_RUN = Field("first_run", EnumValue(FirstRun), "When an interval that never ran is due.", "now")
ADAPT = optional_field("adapt", ListOf(RULE), "Rules that turn results into hints.")

POLICIES: tuple[Field[object], ...] = (
    TIMEZONE,
    Field("catchup", EnumValue(Catchup), "What becomes of beats missed while nothing ran.", "once", _CRON_CATCHUP),
    Field("catchup_max", Integer(1, 10_000), "The most beats that `catchup: all` runs.", "100"),
    Field("grace", DURATION, "The newest instant of an outage runs after all if it is at most this late.", "30s"),
    optional_field("max_late", DURATION, "Older than this is missed (too_late), never run."),
    Field("overlap", EnumValue(Overlap), "What happens while the previous run is still going.", "skip", _EVENT_OVERLAP),
    Field(
        "jitter",
        JITTER,
        "A stable spread: percent of the gap, a duration, or auto (1% of the interval, at most 10s).",
        special_default=_AGENT_SPREAD,
        nullable=True,
        unset="0",
    ),
    *(MIN_INTERVAL, MAX_INTERVAL, BACKOFF, RETRY),
    Field("timeout", DURATION, "One deadline for the whole run.", "1h", _ENDPOINT_TIMEOUT),
    Field("late_after", DURATION, "Shown and alerted as late after this.", "30s"),
    optional_field("pause_after_failures", Integer(1, 1_000_000), "Failures in a row that pause it."),
    *(MAX_RUNS, STARTS_AT, ENDS_AT),
    optional_field("active_hours", HOURS, "Outside, beats are skipped as inactive_hours.", "always"),
    BUDGET,
    optional_field("precheck", ARGV, "A command asked first: exit 0 runs, 1 declines."),
    Field("priority", Integer(-1_000_000, 1_000_000), "Order when capacity is short; higher goes first.", "0"),
    optional_field("tags", ListOf(TEXT), "Words to select schedules by."),
    optional_field("group", NAME, "Siblings that see each other in rules."),
    optional_field("runs_on", TEXT, "Only nodes with this label run it.", "any node"),
    *(DEDUP, WHEN, MAX_QUEUED, FIRST_RUN),
    Field("on_interrupt", EnumValue(OnInterrupt), "What becomes of a run whose node died.", "skip"),
    ADAPT,
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
