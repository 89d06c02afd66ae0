"""The policies of a schedule (SPEC 3): every key, in the order in which `show` prints them."""

from herdbeat.config.forms import ARGV, DURATION, EXPRESSION, HOURS, JITTER, MOMENT, NAME, TEXT, ZONE
from herdbeat.config.keys.rules import RULE
from herdbeat.config.shapes import Number, OneOf, Whole
from herdbeat.config.tables import Key, ListOf, Table
from herdbeat.domain.policies import Catchup, FirstRun, OnInterrupt, Overlap

FACTOR = Key("factor", Whole(1, 10), "Each failure multiplies the wait by this.", "2")
MAX_FAILURES = Key("max_failures", Whole(0, 20), "Failures after which the wait grows no further.", "5")
ATTEMPTS = Key("attempts", Whole(1, 100), "How often one beat is tried, the first time included.", "1")
WAIT = Key("wait", DURATION, "Time before the second attempt.", "30s")
USD_PER_DAY = Key("usd_per_day", Number(0, 1_000_000), "US dollars a day may cost.")
TOKENS_PER_DAY = Key("tokens_per_day", Whole(0, 10**12), "Tokens a day may use.")
RUNS_PER_DAY = Key("runs_per_day", Whole(0, 1_000_000), "Runs a day may have.")

BACKOFF_TABLE = Table("A backoff", (FACTOR, MAX_FAILURES))
RETRY_TABLE = Table("A retry", (ATTEMPTS, WAIT, FACTOR))
BUDGET_TABLE = Table("A budget", (USD_PER_DAY, TOKENS_PER_DAY, RUNS_PER_DAY))

TIMEZONE = Key("timezone", ZONE, "The zone of cron, active hours and budget days.", "the fleet's")
CATCHUP = Key("catchup", OneOf(Catchup), "What becomes of beats missed while nothing ran.", "once; cron: skip")
CATCHUP_MAX = Key("catchup_max", Whole(1, 10_000), "The most beats that `catchup: all` runs.", "100")
GRACE = Key("grace", DURATION, "An instant at most this late is late, not missed, and runs.", "30s")
MAX_LATE = Key("max_late", DURATION, "Older than this is missed (too_late), never run.", "none", may_be_null=True)
OVERLAP = Key(
    "overlap", OneOf(Overlap), "What happens while the previous run is still going.", "skip; event kinds: queue_all"
)
JITTERED = Key("jitter", JITTER, "A stable spread, in percent of the gap or as a duration.", "0", may_be_null=True)
MIN_INTERVAL = Key(
    "min_interval", DURATION, "Never closer together; beats hints and backoff.", "none", may_be_null=True
)
MAX_INTERVAL = Key("max_interval", DURATION, "Never further apart; beats hints and backoff.", "none", may_be_null=True)
BACKOFF = Key("backoff", BACKOFF_TABLE, "How an interval stretches while it fails.", "factor 2, 5 failures")
RETRY = Key("retry", RETRY_TABLE, "More attempts at the same beat, before the next.", "1 attempt")
TIMEOUT = Key("timeout", DURATION, "One deadline for the whole run.", "1h; endpoints: 30s")
LATE_AFTER = Key("late_after", DURATION, "Shown and alerted as late after this.", "30s")
PAUSE_AFTER_FAILURES = Key(
    "pause_after_failures", Whole(1, 1_000_000), "Failures in a row that pause it.", "none", may_be_null=True
)
MAX_RUNS = Key("max_runs", Whole(1), "Runs after which it is expired.", "none", may_be_null=True)
STARTS_AT = Key("starts_at", MOMENT, "Before this moment nothing is due.", "none", may_be_null=True)
ENDS_AT = Key("ends_at", MOMENT, "After this moment it is expired.", "none", may_be_null=True, aliases=("expires",))
ACTIVE_HOURS = Key("active_hours", HOURS, "Outside, beats are skipped as inactive_hours.", "always", may_be_null=True)
BUDGET = Key("budget", BUDGET_TABLE, "What a day may cost; over it, beats are skipped.", "none", may_be_null=True)
PRECHECK = Key("precheck", ARGV, "A command asked first: exit 0 runs, 1 declines.", "none", may_be_null=True)
PRIORITY = Key("priority", Whole(-1_000_000, 1_000_000), "Order when capacity is short; higher goes first.", "0")
TAGS = Key("tags", ListOf(TEXT), "Words to select schedules by.", "none", may_be_null=True)
GROUP = Key("group", NAME, "Siblings that see each other in rules.", "none", may_be_null=True)
RUNS_ON = Key("runs_on", TEXT, "Only nodes with this label run it.", "any node", may_be_null=True)
DEDUP = Key("dedup", EXPRESSION, "Event kinds: what makes a delivery unique.", "its delivery id", may_be_null=True)
WHEN = Key("when", EXPRESSION, "Event kinds: only events for which this holds run.", "all", may_be_null=True)
MAX_QUEUED = Key("max_queued", Whole(1, 1_000_000), "Event kinds: how many may wait.", "no limit", may_be_null=True)
FIRST_RUN = Key("first_run", OneOf(FirstRun), "When an interval that never ran is due.", "now")
ON_INTERRUPT = Key("on_interrupt", OneOf(OnInterrupt), "What becomes of a run whose node died.", "skip")
ADAPT = Key("adapt", ListOf(RULE), "Rules that turn results into hints.", "none", may_be_null=True)

POLICIES: tuple[Key[object], ...] = (
    TIMEZONE,
    CATCHUP,
    CATCHUP_MAX,
    GRACE,
    MAX_LATE,
    OVERLAP,
    JITTERED,
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
POLICY_NAMES = frozenset(name for key in POLICIES for name in (key.name, *key.aliases))

OTHER_WORDS = {
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
