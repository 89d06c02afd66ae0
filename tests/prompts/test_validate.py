"""Prompts are validated when the files are loaded, with regard to the trigger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.trigger import TriggerKind
from herdbeat.error_codes import Code
from herdbeat.errors import UnknownTemplateName
from herdbeat.prompts import VARIABLES, Variable, validate_prompt


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("{{fire_tme}}", "cron", "Unknown variable {{fire_tme}}; did you mean {{fire_time}}?"),
        ("{{Date}}", "cron", "Unknown variable {{Date}}; did you mean {{date}}?"),
        ("{{paylod.a.b}}", "webhook", "Unknown variable {{paylod.a.b}}; did you mean {{payload.a.b}}?"),
        ("{{message.txt}}", "chat", "Unknown variable {{message.txt}}; did you mean {{message.text}}?"),
        ("{{payload.x}}", "cron", "{{payload.x}} is only available on webhook schedules."),
        ("{{run_at}}", "interval", "{{run_at}} is only available on delay schedules."),
        ("{{timestamp}}", "cron", "{{timestamp}} is only available on webhook and manual schedules."),
        ("{{issue.title}}", "cron", "{{issue.title}} is only available on schedules with a work_source."),
        ("{{zebra}}", "manual", "Unknown variable {{zebra}}."),
        ("{{" + "z" * 99 + "}}", "manual", "Unknown variable {{" + "z" * 37 + "…}}."),
    ],
)
def test_the_error_of_an_unknown_name_suggests_a_name_or_says_where_it_exists(
    text: str, kind: str, message: str
) -> None:
    [error] = validate_prompt(text, TriggerKind(kind), has_work=False)

    assert str(error) == message
    assert error.code is Code.UNKNOWN_TEMPLATE_NAME


def test_a_misspelled_issue_variable_is_suggested_where_there_is_work() -> None:
    [error] = validate_prompt("{{issue.titel}}", TriggerKind.INTERVAL, has_work=True)

    assert str(error) == "Unknown variable {{issue.titel}}; did you mean {{issue.title}}?"


def test_the_hint_lists_what_the_schedule_has() -> None:
    [error] = validate_prompt("{{zebra}}", TriggerKind.INTERVAL, has_work=False)

    assert error.hint == (
        'An interval schedule has date, time, fire_time, agent, schedule, previous.*. Write "\\{{" for literal braces.'
    )


def test_all_errors_are_returned_in_the_order_of_the_text() -> None:
    errors = validate_prompt("{{zebra}} {{}} {{date}} {{run_at}} {{", TriggerKind.CRON, has_work=False)

    assert [error.offset for error in errors] == [0, 10, 24, 35]


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row.name)
def test_every_name_of_the_table_passes_on_its_own_schedules_and_on_no_other(row: Variable) -> None:
    name = row.name.replace("*", "x")

    for kind in TriggerKind:
        for has_work in (False, True):
            errors = validate_prompt(f"{{{{{name}}}}}", kind, has_work=has_work)
            provided = any(each.matches(name) and each.is_provided(kind, has_work=has_work) for each in VARIABLES)
            assert bool(errors) is not provided


@given(st.text(alphabet="{} .pabelotyd_ius\\", max_size=60), st.sampled_from(TriggerKind), st.booleans())
def test_the_errors_of_any_text_point_into_it(text: str, kind: TriggerKind, has_work: bool) -> None:
    for error in validate_prompt(text, kind, has_work=has_work):
        assert text[error.offset : error.offset + 2] == "{{"
        assert str(error)
        assert error.hint
        assert not isinstance(error, UnknownTemplateName) or error.name in text
