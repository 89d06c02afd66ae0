"""One pass over {{dotted.names}}."""

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import TemplateError
from herdbeat.prompts.template import Placeholder, Template, TextBlock, scan_template


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("no braces at all", "no braces at all"),
        ("", ""),
        ("on {{date}}", "on 2026-04-01"),
        ("on {{ date }}", "on 2026-04-01"),
        ("on {{\n date\t}}", "on 2026-04-01"),
        ("{{date}}{{date}}", "2026-04-012026-04-01"),
        (r"write \{{date}} for a name", "write {{date}} for a name"),
        ("{ {date} } }}", "{ {date} } }}"),
        ("{{payload.issue.labels.1.name}}", "auth"),
        ("{{payload.count}} of {{payload.share}}", "3 of 0.5"),
        ("{{payload.open}}", "true"),
        ("{{payload.issue}}", '{"labels":[{"name":"bug"},{"name":"auth"}],"who":"Zoë"}'),
        ("[{{payload.nothing}}]", "[]"),
        ("[{{payload.null}}]", "[]"),
        ("[{{payload.issue.labels.2.name}}]", "[]"),
        ("[{{payload.issue.labels.-1.name}}]", "[]"),
        ("[{{payload.issue.labels.99999999999999999999}}]", "[]"),
        ("[{{payload.count.real}}]", "[]"),
        ("[{{payload.issue.who.0}}]", "[]"),
        ("[{{payload.keys}}]", "[]"),
    ],
)
def test_names_are_replaced_by_their_values(text: str, rendered: str) -> None:
    labels = [{"name": "bug"}, {"name": "auth"}]
    payload = {"issue": {"labels": labels, "who": "Zoë"}, "count": 3, "share": 0.5, "open": True, "null": None}
    values = {"date": "2026-04-01", "payload": payload}

    assert Template.parse(text).render(values) == rendered


def test_values_are_never_scanned_again() -> None:
    values = {"title": "{{secret}}", "secret": "the key"}

    rendered = Template.parse("{{title}}").render(values)

    assert rendered == "{{secret}}"


def test_placeholders_have_their_offsets() -> None:
    text = r"a \{{b}} {{ c.d }} {{e}}"

    names = Template.parse(text).placeholders

    assert [(name.name, text[name.offset : name.offset + name.width]) for name in names] == [
        ("c.d", "{{ c.d }}"),
        ("e", "{{e}}"),
    ]


@pytest.mark.parametrize(
    ("text", "offset", "width", "message"),
    [
        ("say {{date", 4, 2, 'A "{{" is not closed.'),
        ("{{ a {{date}}", 0, 2, 'A "{{" is not closed.'),
        ("x{{}}", 1, 4, '"{{}}" contains no name.'),
        ("x{{  }}", 1, 6, '"{{  }}" contains no name.'),
        ("{{ date | upper }}", 0, 18, '"{{ date | upper }}" is not a valid name.'),
        ("{{a..b}}", 0, 8, '"{{a..b}}" is not a valid name.'),
        ("{{.a}}", 0, 6, '"{{.a}}" is not a valid name.'),
        ("{{{a b}}}", 1, 7, '"{{a b}}" is not a valid name.'),
    ],
)
def test_an_invalid_placeholder_is_an_error_with_its_offset(text: str, offset: int, width: int, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template.parse(text)

    assert (caught.value.offset, caught.value.width, str(caught.value)) == (offset, width, message)
    assert r"\{{" in caught.value.hint


def test_every_error_is_collected_and_its_text_stays() -> None:
    text = "{{}} {{date}} {{a b}} {{"

    template, errors = scan_template(text)

    assert [error.offset for error in errors] == [0, 14, 22]
    assert template.render({"date": "today"}) == "{{}} today {{a b}} {{"


def test_containers_of_any_type_are_written_as_json() -> None:
    values = {"payload": MappingProxyType({"ids": (1, 2), "more": MappingProxyType({})})}

    assert Template.parse("{{payload}}").render(values) == '{"ids":[1,2],"more":{}}'


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{x}}", "BLOCK"),
        ("say {{x}}", "say \nBLOCK"),
        ("say\n{{x}}\nnow", "say\nBLOCK\nnow"),
        ("{{x}} now", "BLOCK\n now"),
        ("{{x}}{{x}}", "BLOCK\nBLOCK"),
    ],
)
def test_a_block_gets_lines_of_its_own(text: str, rendered: str) -> None:
    def format_value(name: Placeholder, value: object) -> TextBlock:
        return TextBlock("BLOCK")

    assert Template.parse(text).render({}, format_value) == rendered


@given(st.text(alphabet="ab{}\\. \n", max_size=40))
def test_any_text_is_parsed_or_rejected_with_an_offset_inside_it(text: str) -> None:
    template, errors = scan_template(text)

    for error in errors:
        assert text[error.offset :].startswith("{{")
        assert error.offset + error.width <= len(text)
    for name in template.placeholders:
        assert text[name.offset : name.offset + name.width] == name.written


@given(st.text())
def test_escaped_text_renders_as_it_was(text: str) -> None:
    plain = text.replace("\\", "/")
    escaped = plain.replace("{{", r"\{{")

    assert Template.parse(escaped).render({}) == plain


@given(value=st.text(), before=st.text(alphabet="xyz \n"), after=st.text(alphabet="xyz \n"))
def test_a_value_is_inserted_unchanged(value: str, before: str, after: str) -> None:
    template = Template.parse(before + "{{value}}" + after)

    assert template.render({"value": value}) == before + value + after
