"""What rules cost: the share of one core that three rules per schedule take at 1,000 finished runs a second."""

from statistics import median

from bench.subprocesses import fresh_folder, run_ours
from bench.timing import Result, format_table

BEATS = 2_000
ROUNDS = 5
FINISHES_PER_SECOND = 1_000
GOAL = 0.15


def run() -> list[Result]:
    """Both contenders take turns, so that a busy moment of the machine affects both."""
    rounds = [(_micros(has_rules=False), _micros(has_rules=True)) for _ in range(ROUNDS)]
    without, with_rules = median(each for each, _ in rounds), median(each for _, each in rounds)
    cost = median(ruled - bare for bare, ruled in rounds)
    share = cost * FINISHES_PER_SECOND / 1_000_000
    rows = [
        ("processor time of a beat", ""),
        ("without rules", f"{without:,.0f} us"),
        ("with three rules", f"{with_rules:,.0f} us"),
        ("the rules", f"{cost:,.0f} us"),
    ]
    print(format_table(rows))
    return [
        Result(
            what=f"three rules at {FINISHES_PER_SECOND:,} finishes a second",
            measured=f"{share:.1%} of a core",
            goal=f"at most {GOAL:.0%}",
            is_met=share <= GOAL,
        )
    ]


def _micros(*, has_rules: bool) -> float:
    with fresh_folder() as folder:
        measured = run_ours("rules", folder, beats=BEATS, has_rules=has_rules)
    return float(measured["cpu_seconds"]) / BEATS * 1_000_000
