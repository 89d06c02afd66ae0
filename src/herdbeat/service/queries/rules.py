"""Rules over history: what they would have done, and which fields the responses really had."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.rule_state import RuleStep
from herdbeat.domain.selection import Selection
from herdbeat.errors import UsageError
from herdbeat.rules.backtest import Backtest, backtest_rules
from herdbeat.rules.expression import find_reads
from herdbeat.rules.rule import Rule, load_rules
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.store.reader import Reader

MAX_BACKTEST_RUNS = 20_000
FIELD_SAMPLE_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """A backtest of the rules of one schedule, and the fields that no response had."""

    schedule: str
    backtest: Backtest
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRules:
    """The rules of a schedule in the order of its file, each with its outcome after the newest run."""

    label: str
    rules: tuple[tuple[Rule, RuleStep | None], ...]


def list_rules(reader: Reader, selection: Selection) -> list[ScheduleRules]:
    """Return the schedules of a selection that have rules. Raises NotFound."""
    found = [each for each in select_schedules(reader, selection) if each.plan.policies.adapt]
    return [_read_rules(reader, each) for each in found]


def _read_rules(reader: Reader, record: ScheduleRecord) -> ScheduleRules:
    steps = reader.rule_steps(record.id)
    rules = load_rules(record.plan.policies.adapt)
    return ScheduleRules(label=record.label, rules=tuple((rule, steps.get(rule.name)) for rule in rules))


def replay_rules(reader: Reader, record: ScheduleRecord, since: datetime) -> RuleTest:
    """Replay the rules of a schedule over its runs since then. Raises UsageError if it has none."""
    policies = record.plan.policies
    if not policies.adapt:
        raise UsageError(f"{record.label} has no rules.", hint="Add them to the schedule under adapt:")
    rules = load_rules(policies.adapt)
    newest_first = reader.past_runs(record.id, limit=MAX_BACKTEST_RUNS)
    runs = [run for run in reversed(newest_first) if run.started_at >= since]
    backtest = backtest_rules(
        rules,
        runs,
        interval=record.plan.trigger.interval,
        min_interval=policies.limits.at_least,
        max_interval=policies.limits.at_most,
        tags=policies.tags,
    )
    warnings = tuple(find_missing_fields(rules, newest_first[:FIELD_SAMPLE_RUNS]))
    return RuleTest(schedule=record.label, backtest=backtest, warnings=warnings)


def find_missing_fields(rules: tuple[Rule, ...], runs: list[PastRun]) -> Iterator[str]:
    """Yield a sentence for each field of the response that a rule reads and no response had."""
    responses = [run.response for run in runs if isinstance(run.response, dict)]
    if not responses:
        return
    known = {key for response in responses for key in response}
    for rule in rules:
        for expression in (rule.when, rule.until):
            for read in find_reads(expression.root) if expression else ():
                key = read.keys[0] if read.root == "response" and read.keys else None
                if isinstance(key, str) and key not in known:
                    close = get_close_matches(key, known, n=1, cutoff=0.6)
                    guess = f'; did you mean "{close[0]}"?' if close else "."
                    yield f'{rule.name}: none of the last {len(responses)} responses has "{key}"{guess}'
