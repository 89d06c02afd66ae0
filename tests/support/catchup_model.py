"""What becomes of what was missed, told a second time: instant after instant, by the words of the rules.

It shares no code with the engine. Times are whole seconds since the schedule was made; runs take no time and succeed.
"""

from dataclasses import dataclass

CRON_PERIOD_S = 600
"""Seconds between the instants of the cron: every ten minutes."""

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
        """A nap of two seconds is a slow machine, not lost time; a process that was not there is always missed."""
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
    """SEMANTICS 9, in its order: too late; the newest if just late; the rest by the policy."""
    late = {at: case.back - at for at in missed}
    rows: list[ExpectedBeat] = []
    if case.max_late is not None:
        old = [at for at in missed if late[at] > case.max_late]
        rows += [(at, "missed", "too_late", source) for at in old]
        missed = [at for at in missed if at not in old]
    if not case.is_noticed:
        # Nobody was away, as far as anyone knows: it runs however late.
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
    """Due so long after the last one was settled; overdue, it is one instant however long the outage was."""
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
