from tests.support.config_folder import ConfigFolder

from herdbeat.config.schema.policies import POLICIES
from herdbeat.errors import SourceLocation
from herdbeat.redaction import MASK

FLEET = """
timezone: Europe/Berlin
store: postgresql://me:pass@db/x
defaults: { late_after: 1m }
endpoints:
  - name: probe
    url: https://user:pass@example.com/x
    headers: { Authorization: Bearer abc, Accept: text/html, X-Place: "${PLACE:-here}" }
    every: 5m
    timeout: 10s
"""
NESTED = {"backoff", "retry", "budget"}


def test_every_policy_is_shown_with_its_origin(folder: ConfigFolder) -> None:
    values = folder.values(FLEET)

    path = "endpoints.probe.schedules.default"
    shown = {name.removeprefix(f"{path}.") for name in values if name.startswith(path)}
    assert shown >= {key.name for key in POLICIES} - NESTED
    assert shown >= {"backoff.factor", "retry.attempts", "budget.usd_per_day", "type", "interval", "enabled", "prompt"}


def test_an_origin_is_a_location_the_defaults_or_the_word_default(folder: ConfigFolder) -> None:
    values = folder.values(FLEET)

    path = "endpoints.probe.schedules.default"
    timeout, late_after, grace = (values[f"{path}.{name}"] for name in ("timeout", "late_after", "grace"))
    assert isinstance(timeout.origin, SourceLocation)
    assert (timeout.value, str(timeout.origin)) == ("10s", "herdbeat.yaml:10:14")
    assert (late_after.value, late_after.origin) == ("1m", "defaults at herdbeat.yaml:4")
    assert (grace.value, grace.origin) == ("30s", "default")


def test_the_zone_of_a_foreign_file_names_its_tool(folder: ConfigFolder) -> None:
    folder.write({"a.yaml": "name: a\nschedules: { s: { type: chat } }"})

    herdctl = folder.values({"herdctl.yaml": "agents: [{ path: a.yaml }]"})

    assert herdctl["agents.a.schedules.s.timezone"].origin == "herdctl default (system zone)"


def test_secrets_are_hidden_and_their_origin_is_not(folder: ConfigFolder) -> None:
    folder.environ["PLACE"] = "s3cret"

    values = folder.values(FLEET)

    assert values["endpoints.probe.headers.Authorization"].value == MASK
    assert values["endpoints.probe.headers.X-Place"].value == "${PLACE:-here}"
    assert values["endpoints.probe.headers.Accept"].value == "text/html"
    assert str(values["endpoints.probe.headers.X-Place"].origin) == "herdbeat.yaml:8:71"
    assert values["endpoints.probe.url"].value == "https://user:***@example.com/x"
    assert values["store"].value == "postgresql://me:***@db/x"


def test_the_name_of_a_variable_is_not_masked(folder: ConfigFolder) -> None:
    values = folder.values("webhooks: { secret_env: HOOK_SECRET }\n")

    assert values["webhooks.secret_env"].value == "HOOK_SECRET"


def test_what_a_variable_put_into_a_prompt_is_shown_as_it_is_written(folder: ConfigFolder) -> None:
    folder.environ |= {"API_TOKEN": "s3cret", "CITY": "Berlin"}

    values = folder.values("agents: [{ name: a, every: 5m, prompt: 'Use ${API_TOKEN}', system_prompt: 'In ${CITY}' }]")

    assert values["agents.a.schedules.default.prompt"].value == "Use ${API_TOKEN}"
    assert values["agents.a.system_prompt"].value == "In ${CITY}"


def test_a_default_of_a_variable_is_shown_because_the_file_shows_it(folder: ConfigFolder) -> None:
    values = folder.values("agents: [{ name: a, every: 5m, prompt: 'In ${CITY:-Berlin}' }]")

    assert values["agents.a.schedules.default.prompt"].value == "In Berlin"


def test_times_names_and_numbers_from_variables_are_shown(folder: ConfigFolder) -> None:
    folder.environ |= {"PACE": "7m", "LATE": "90s", "RUNS": "3", "WHO": "scout"}

    values = folder.values("agents: [{ name: '${WHO}', every: '${PACE}', late_after: '${LATE}', max_runs: '${RUNS}' }]")

    path = "agents.scout.schedules.default"
    assert [values[f"{path}.{name}"].value for name in ("interval", "late_after", "max_runs")] == ["7m", "90s", 3]
