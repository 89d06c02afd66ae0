"""A second, independent implementation of the misfire rules, one instant after the other.

It shares no code with the scheduler. Times are whole seconds since the schedule was created; runs take no time and
succeed.
"""

from dataclasses import dataclass

CRON_PERIOD_S = 600
"""Seconds between the instants of the cron schedule: every ten minutes."""

INTERVAL_S = 420
DELAY_S = 900

ExpectedBeat = tuple[int, str, str, str]
"""Due, outcome, reason, source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchupCase:
    """A schedule that was served until `away`, not for `outage` seconds, and again until `end`."""

    kind: str
    catchup: str
    away: int
    outage: int
    cause: str
    grace: int
    max_late: int | None
    catchup_max: int
    after: int

    @property
    def back(self) -> int:
        return self.away + self.outage

    @property
    def end(self) -> int:
        return self.back + self.after

    @property
    def is_noticed(self) -> bool:
        """Return whether the outage counts as a gap: a pause of two seconds is a slow machine; a stopped process always
        counts.
        """
        return self.outage > (0 if self.cause == "scheduler_down" else 2)


def expected_rows(case: CatchupCase) -> list[ExpectedBeat]:
    if case.kind == "cron":
        return _cron_rows(case)
    if case.kind == "interval":
        return _interval_rows(case)
    return _delay_rows(case)


def _cron_rows(case: CatchupCase) -> list[ExpectedBeat]:
    instants = range(CRON_PERIOD_S, case.end + 1, CRON_PERIOD_S)
    missed = [at for at in instants if case.away < at <= case.back]
    served = [at for at in instants if not case.away < at <= case.back]
    rows = [(at, "ran", "", "baseline-cron") for at in served]
    return sorted(rows + _classify_missed(case, missed, "baseline-cron"))


def _classify_missed(case: CatchupCase, missed: list[int], source: str) -> list[ExpectedBeat]:
    """Apply the catch-up rules in their order: too late; the newest if it is only just late; the rest by the policy."""
    late = {at: case.back - at for at in missed}
    rows: list[ExpectedBeat] = []
    if case.max_late is not None:
        old = [at for at in missed if late[at] > case.max_late]
        rows += [(at, "missed", "too_late", source) for at in old]
        missed = [at for at in missed if at not in old]
    if not case.is_noticed:
        # No gap was recorded, so it runs however late it is.
        return rows + [(at, "ran", "", source) for at in missed]
    runs_anyway = False
    if missed and late[missed[-1]] <= case.grace:
        rows.append((missed.pop(), "ran", "", source))
        runs_anyway = True
    return rows + [_apply_catchup(case, missed, place, source, runs_anyway) for place in range(len(missed))]


def _apply_catchup(case: CatchupCase, missed: list[int], place: int, source: str, runs_anyway: bool) -> ExpectedBeat:
    at, from_the_end = missed[place], len(missed) - place
    if case.catchup == "skip":
        return at, "missed", case.cause, source
    if case.catchup == "once":
        if from_the_end == 1 and not runs_anyway:
            return at, "ran", "", "catch-up"
        return at, "merged", "once", source
    if from_the_end <= case.catchup_max:
        return at, "ran", "", "catch-up"
    return at, "missed", case.cause, source


def _interval_rows(case: CatchupCase) -> list[ExpectedBeat]:
    """Yield the rows of an interval: due so long after the last settled beat, and one instant for the whole outage."""
    rows: list[ExpectedBeat] = []
    due = INTERVAL_S
    while due <= case.end:
        source = "baseline-interval"
        if case.away < due <= case.back:
            rows += _classify_missed(case, [due], source)
            due = case.back + INTERVAL_S
        else:
            rows.append((due, "ran", "", source))
            due += INTERVAL_S
    return rows


def _delay_rows(case: CatchupCase) -> list[ExpectedBeat]:
    if case.away < DELAY_S <= case.back:
        return _classify_missed(case, [DELAY_S], "delay")
    return [(DELAY_S, "ran", "", "delay")] if case.end >= DELAY_S else []
