from datetime import UTC, datetime

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, ToolMode, ToolPolicy
from herdbeat.error_codes import Code
from herdbeat.prompts.template import Template
from herdbeat.triggers import Delay, load_trigger

AGENT = {".agentd/agents/a.yml": "name: a\nworking_dir: .\n"}


def schedule_of(folder: ConfigFolder, workflow: str) -> Schedule:
    fleet = folder.fleet(AGENT | {".agentd/workflows/w.yml": f"name: w\nagent: a\n{workflow}"})
    (schedule,) = fleet.schedules
    return schedule


def test_cron_is_in_utc_whatever_the_system_says(folder: ConfigFolder) -> None:
    schedule = schedule_of(folder, 'source: { type: cron, expression: "0 9 * * MON-FRI" }\nprompt_template: x')

    assert schedule.id == "a/w"
    assert schedule.policies.zone.key == "UTC"
    assert schedule.trigger.next_time(None, datetime(2026, 4, 1, 8, tzinfo=UTC)) == datetime(2026, 4, 1, 9, tzinfo=UTC)


def test_a_delay_keeps_its_instant(folder: ConfigFolder) -> None:
    schedule = schedule_of(folder, 'source: { type: delay, run_at: "2026-04-01T05:00:00-04:00" }\nprompt_template: x')

    assert schedule.trigger == Delay(datetime(2026, 4, 1, 9, tzinfo=UTC), is_workflow=True)


def test_the_source_id_of_a_delay_is_that_of_its_workflow(folder: ConfigFolder) -> None:
    schedule = schedule_of(folder, 'source: { type: delay, run_at: "2026-04-01T05:00:00-04:00" }\nprompt_template: x')

    trigger = load_trigger(schedule.trigger.kind, schedule.trigger.options())  # as a ledger gives it back
    variables = trigger.variables(datetime(2026, 4, 1, 9, tzinfo=UTC), schedule.id)
    assert variables["source_id"] == f"delay:{variables['workflow_id']}"


def test_a_blank_prompt_does_not_hide_other_errors_of_the_workflow(folder: ConfigFolder) -> None:
    workflow = (
        'name: w\nagent: nobody\nsource: { type: cron, expression: "61 * * * *" }\n'
        'prompt_template: "  "\ntool_policy: { mode: allow_list }\n'
    )

    problems = folder.read(AGENT | {".agentd/workflows/w.yml": workflow}, ".agentd").problems

    codes = {problem.code for problem in problems}
    assert codes == {Code.UNKNOWN_TARGET, Code.INVALID_CRON, Code.INVALID_VALUE, Code.MISSING_KEY}


def test_an_unknown_agent_does_not_hide_other_errors_of_the_workflow(folder: ConfigFolder) -> None:
    workflow = 'name: w\nagent: nobody\nsource: { type: cron, expression: "61 9 * * *" }\nprompt_template: "{{date"\n'

    result = folder.read({".agentd/agents/a.yml": "name: a", ".agentd/workflows/w.yml": workflow}, ".agentd")

    codes = [(problem.code, problem.where and problem.where.line) for problem in result.problems]
    assert codes == [(Code.UNKNOWN_TARGET, 2), (Code.INVALID_CRON, 3), (Code.INVALID_TEMPLATE, 4)]
    assert result.fleet is not None
    assert [target.name for target in result.fleet.targets] == ["a"]


@pytest.mark.parametrize(
    "agent", ["name: a\ntool_policy: { mode: allow_list }", "name: a\nname: a", "name: a\nsystem_prompt_file: none.md"]
)
def test_an_agent_with_an_error_was_called_unknown_by_its_workflows(folder: ConfigFolder, agent: str) -> None:
    workflow = 'name: w\nagent: a\nsource: { type: cron, expression: "61 9 * * *" }\nprompt_template: x\n'

    result = folder.read({".agentd/agents/a.yml": agent, ".agentd/workflows/w.yml": workflow}, ".agentd")

    assert len(result.problems) == 2
    assert result.problems[1].code is Code.INVALID_CRON  # it is checked all the same
    assert result.fleet is None or result.fleet.schedules == ()


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ('prompt_template: "  "', "prompt_template is empty.", 4),
        ("prompt_template: x\ntool_policy: { mode: allow_list }", 'Mode "allow_list" lists no tools.', 5),
        ("prompt_template: x\ntool_policy: { mode: allow_list, tools: [] }", 'Mode "allow_list" lists no tools.', 5),
        ('prompt_template: "use ${UNCLOSED"', '"${UNCLOSED" is not closed.', 4),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    folder: ConfigFolder, lines: str, message: str, line: int
) -> None:
    workflow = f"name: w\nagent: a\nsource: {{ type: manual }}\n{lines}\n"

    result = folder.read({".agentd/agents/a.yml": "name: a", ".agentd/workflows/w.yml": workflow}, ".agentd")

    assert [(problem.message, problem.where and problem.where.line) for problem in result.errors] == [(message, line)]


def test_three_braces_are_braces_around_the_value() -> None:
    assert Template.parse("a {{{title}}} b \\{{x}}").render({"title": "T"}) == "a {T} b {{x}}"


def test_polling_github_is_an_interval_with_a_work_source(folder: ConfigFolder) -> None:
    source = "source: { type: github_issues, owner: acme, repo: app, labels: [bug] }"

    schedule = schedule_of(folder, f"{source}\nprompt_template: '{{{{title}}}}'")

    assert schedule.trigger.describe() == "every 1m"
    assert schedule.work_source is not None
    assert schedule.work_source["repo"] == "acme/app"
    assert schedule.work_source["filter_labels"] == ["bug"]
    assert schedule.work_source["exclude_labels"] == []
    assert schedule.work_source["claim"] == "store"


def test_a_tool_policy_and_enabled_are_carried_over(folder: ConfigFolder) -> None:
    policy = "tool_policy: { mode: allow_list, tools: [Bash, WebFetch] }"

    schedule = schedule_of(folder, f"source: {{ type: manual }}\nprompt_template: x\nenabled: false\n{policy}")

    assert schedule.tool_policy == ToolPolicy(mode=ToolMode.ALLOW_LIST, tools=("Bash", "WebFetch"))
    assert not schedule.enabled


def test_a_webhooks_secret_is_kept_and_never_printed(folder: ConfigFolder) -> None:
    schedule = schedule_of(folder, "source: { type: webhook, secret: s3cret }\nprompt_template: x")

    assert schedule.secret == "s3cret"
    assert "s3cret" not in repr(schedule)
    assert "s3cret" not in str(folder.read({}).values)


def test_an_inline_prompt_wins_over_a_file(folder: ConfigFolder) -> None:
    folder.write({".agentd/workflows/p.md": "from file"})

    both = schedule_of(folder, "source: { type: manual }\nprompt_template: inline\nprompt_template_file: p.md")
    one = schedule_of(folder, "source: { type: manual }\nprompt_template_file: p.md")

    assert (both.prompt, one.prompt) == ("inline", "from file")


def test_a_working_dir_of_dot_is_the_folder_around_agentd(folder: ConfigFolder) -> None:
    fleet = folder.fleet(AGENT | {".agentd/agents/b.yml": "name: b\nworking_dir: ../../src\n"})

    specs = [target.spec for target in fleet.targets]
    directories = [spec.working_directory for spec in specs if isinstance(spec, AgentSpec)]

    assert directories == [".", "src"]


def test_an_agent_with_an_isolation_key_gets_a_container(folder: ConfigFolder) -> None:
    fleet = folder.fleet({".agentd/agents/a.yml": "name: a\nnetwork_policy: isolated\nextra_mounts: ['/a:/a']\n"})

    spec = fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert spec.docker == {"enabled": True, "network": "none", "volumes": ["/a:/a"]}


def test_an_unsupported_trigger_is_left_out_with_a_warning(folder: ConfigFolder) -> None:
    workflow = "{ name: w, agent: a, source: { type: queue, queue_name: q }, prompt_template: x }"

    result = folder.read(AGENT | {".agentd/workflows/w.yml": workflow})

    assert [problem.code for problem in result.problems] == [Code.NOT_SERVED]
    assert result.errors == ()
    assert result.fleet is not None
    assert result.fleet.schedules == ()


def test_workflows_may_be_for_agents_of_the_fleet_that_imports_them(folder: ConfigFolder) -> None:
    fleet = "imports: [{ agentd: .agentd/ }]\nagents: [{ name: own, every: 1h }]\ndefaults: { timezone: Asia/Tokyo }"
    workflow = '{ name: w, agent: own, source: { type: cron, expression: "0 9 * * *" }, prompt_template: x }'

    read = folder.fleet({"herdbeat.yaml": fleet, ".agentd/workflows/w.yml": workflow})

    assert [(schedule.label, schedule.policies.zone.key) for schedule in read.schedules] == [
        ("own", "Asia/Tokyo"),
        ("own/w", "UTC"),
    ]


def test_an_unsupported_workflow_alone_is_a_fleet_without_schedules(folder: ConfigFolder) -> None:
    result = folder.read({"w.yml": "{ name: w, agent: a, source: { type: queue }, prompt_template: x }"}, "w.yml")

    assert [problem.code for problem in result.problems] == [Code.NOT_SERVED]
    assert result.fleet is not None
    assert result.fleet.schedules == ()


def test_an_agent_whose_system_prompt_file_is_missing_is_rejected(folder: ConfigFolder) -> None:
    result = folder.read({".agentd/agents/a.yml": "name: a\nsystem_prompt_file: nowhere.md\n"})

    assert [problem.code for problem in result.problems] == [Code.FILE_NOT_FOUND]
    assert result.fleet is not None
    assert result.fleet.targets == ()


def test_a_workflow_alone_is_validated_as_in_its_folder(folder: ConfigFolder) -> None:
    workflow = "{ name: w, agent: a, source: { type: manual }, prompt_template: '{{nobody}}', colour: blue }"

    result = folder.read({"w.yml": workflow}, "w.yml")

    assert {problem.code for problem in result.problems} == {Code.UNKNOWN_KEY, Code.UNKNOWN_TEMPLATE_NAME}
    assert result.errors == ()


@pytest.mark.parametrize(
    ("expression", "is_warned"),
    [
        ("0 9 */2 * MON", True),
        ("0 0 9 13 * */2", True),
        ("0 0 9 */2 * MON *", True),
        ("0 9 */2 * *", False),
        ("0 9 */2 * ?", False),
        ("0 9 * * MON", False),
        ("0 9 13 * FRI", False),
        ("0 9 1-31/2 * MON", False),
        ("0 9 */2 * +MON", False),
    ],
)
def test_a_day_that_agentd_takes_from_either_field_is_a_warning(
    folder: ConfigFolder, expression: str, is_warned: bool
) -> None:
    workflow = f'name: w\nagent: a\nsource: {{ type: cron, expression: "{expression}" }}\nprompt_template: x'

    result = folder.read(AGENT | {".agentd/workflows/w.yml": workflow})

    assert result.errors == ()
    assert [problem.code for problem in result.problems] == [Code.CHANGED_MEANING] * is_warned


def test_an_unreadable_folder_of_workflows_is_an_error(folder: ConfigFolder) -> None:
    folder.write(AGENT)
    (folder.path / ".agentd/workflows").symlink_to("workflows")

    (problem,) = folder.read({}).errors

    assert problem.code is Code.UNREADABLE_FILE
    assert ".agentd/workflows" in problem.message
