"""The policies of a schedule (SPEC 3): every key, in the order in which `show` prints them."""

from herdbeat.config.schema.formats import ARGV, DURATION, EXPRESSION, HOURS, JITTER, NAME, TEXT, TIMESTAMP, ZONE
from herdbeat.config.schema.rules import RULE
from herdbeat.config.schema.table import Field, ListOf, Table
from herdbeat.config.schema.types import EnumValue, Integer, Number
from herdbeat.domain.policies import Catchup, FirstRun, OnInterrupt, Overlap

FACTOR = Field("factor", Integer(1, 10), "Each failure multiplies the wait by this.", "2")
MAX_FAILURES = Field("max_failures", Integer(0, 20), "Failures after which the wait grows no further.", "5")
ATTEMPTS = Field("attempts", Integer(1, 100), "How often one beat is tried, the first time included.", "1")
WAIT = Field("wait", DURATION, "Time before the second attempt.", "30s")
USD_PER_DAY = Field("usd_per_day", Number(0, 1_000_000), "US dollars a day may cost.")
TOKENS_PER_DAY = Field("tokens_per_day", Integer(0, 10**12), "Tokens a day may use.")
RUNS_PER_DAY = Field("runs_per_day", Integer(0, 1_000_000), "Runs a day may have.")

BACKOFF_TABLE = Table("A backoff", (FACTOR, MAX_FAILURES))
RETRY_TABLE = Table("A retry", (ATTEMPTS, WAIT, FACTOR))
BUDGET_TABLE = Table("A budget", (USD_PER_DAY, TOKENS_PER_DAY, RUNS_PER_DAY))

TIMEZONE = Field("timezone", ZONE, "The zone of cron, active hours and budget days.", "the fleet's")
CATCHUP = Field("catchup", EnumValue(Catchup), "What becomes of beats missed while nothing ran.", "once; cron: skip")
CATCHUP_MAX = Field("catchup_max", Integer(1, 10_000), "The most beats that `catchup: all` runs.", "100")
GRACE = Field("grace", DURATION, "An instant at most this late is late, not missed, and runs.", "30s")
MAX_LATE = Field("max_late", DURATION, "Older than this is missed (too_late), never run.", "none", nullable=True)
OVERLAP = Field(
    "overlap", EnumValue(Overlap), "What happens while the previous run is still going.", "skip; event kinds: queue_all"
)
JITTER_KEY = Field("jitter", JITTER, "A stable spread, in percent of the gap or as a duration.", "0", nullable=True)
MIN_INTERVAL = Field("min_interval", DURATION, "Never closer together; beats hints and backoff.", "none", nullable=True)
MAX_INTERVAL = Field("max_interval", DURATION, "Never further apart; beats hints and backoff.", "none", nullable=True)
BACKOFF = Field("backoff", BACKOFF_TABLE, "How an interval stretches while it fails.", "factor 2, 5 failures")
RETRY = Field("retry", RETRY_TABLE, "More attempts at the same beat, before the next.", "1 attempt")
TIMEOUT = Field("timeout", DURATION, "One deadline for the whole run.", "1h; endpoints: 30s")
LATE_AFTER = Field("late_after", DURATION, "Shown and alerted as late after this.", "30s")
PAUSE_AFTER_FAILURES = Field(
    "pause_after_failures", Integer(1, 1_000_000), "Failures in a row that pause it.", "none", nullable=True
)
MAX_RUNS = Field("max_runs", Integer(1), "Runs after which it is expired.", "none", nullable=True)
STARTS_AT = Field("starts_at", TIMESTAMP, "Before this moment nothing is due.", "none", nullable=True)
ENDS_AT = Field("ends_at", TIMESTAMP, "After this moment it is expired.", "none", nullable=True, aliases=("expires",))
ACTIVE_HOURS = Field("active_hours", HOURS, "Outside, beats are skipped as inactive_hours.", "always", nullable=True)
BUDGET = Field("budget", BUDGET_TABLE, "What a day may cost; over it, beats are skipped.", "none", nullable=True)
PRECHECK = Field("precheck", ARGV, "A command asked first: exit 0 runs, 1 declines.", "none", nullable=True)
PRIORITY = Field("priority", Integer(-1_000_000, 1_000_000), "Order when capacity is short; higher goes first.", "0")
TAGS = Field("tags", ListOf(TEXT), "Words to select schedules by.", "none", nullable=True)
GROUP = Field("group", NAME, "Siblings that see each other in rules.", "none", nullable=True)
RUNS_ON = Field("runs_on", TEXT, "Only nodes with this label run it.", "any node", nullable=True)
DEDUP = Field("dedup", EXPRESSION, "Event kinds: what makes a delivery unique.", "its delivery id", nullable=True)
WHEN = Field("when", EXPRESSION, "Event kinds: only events for which this holds run.", "all", nullable=True)
MAX_QUEUED = Field("max_queued", Integer(1, 1_000_000), "Event kinds: how many may wait.", "no limit", nullable=True)
FIRST_RUN = Field("first_run", EnumValue(FirstRun), "When an interval that never ran is due.", "now")
ON_INTERRUPT = Field("on_interrupt", EnumValue(OnInterrupt), "What becomes of a run whose node died.", "skip")
ADAPT = Field("adapt", ListOf(RULE), "Rules that turn results into hints.", "none", nullable=True)

POLICIES: tuple[Field[object], ...] = (
    TIMEZONE,
    CATCHUP,
    CATCHUP_MAX,
    GRACE,
    MAX_LATE,
    OVERLAP,
    JITTER_KEY,
    MIN_INTERVAL,
    MAX_INTERVAL,
    BACKOFF,
    RETRY,
    TIMEOUT,
    LATE_AFTER,
    PAUSE_AFTER_FAILURES,
    MAX_RUNS,
    STARTS_AT,
    ENDS_AT,
    ACTIVE_HOURS,
    BUDGET,
    PRECHECK,
    PRIORITY,
    TAGS,
    GROUP,
    RUNS_ON,
    DEDUP,
    WHEN,
    MAX_QUEUED,
    FIRST_RUN,
    ON_INTERRUPT,
    ADAPT,
)
POLICY_KEY_NAMES = frozenset(name for key in POLICIES for name in (key.name, *key.aliases))

FOREIGN_KEY_SUGGESTIONS = {
    "catchup_window": "max_late",
    "misfire_grace_time": "max_late",
    "tz": "timezone",
    "time_zone": "timezone",
    "zone": "timezone",
    "concurrency": "overlap",
    "coalesce": "catchup",
    "quiet_hours": "active_hours",
    "retries": "retry",
    "once": "at",
    "run_in": "at",
    "schedule": "cron",
    "cost": "budget",
}
"""What other tools, and older pages, call it."""
