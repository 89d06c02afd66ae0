from tests.support.config_folder import ConfigFolder

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.error_codes import Code


def spec_of(fleet: Fleet, name: str) -> AgentSpec:
    target = fleet.target(name)
    assert target is not None
    assert isinstance(target.spec, AgentSpec)
    return target.spec


def herdctl(defaults: str, agent: str, overrides: str = "{}") -> dict[str, str]:
    fleet = f"defaults: {defaults}\nagents: [{{ path: agents/a.yaml, overrides: {overrides} }}]\n"
    return {"herdctl.yaml": fleet, "agents/a.yaml": f"name: a\n{agent}\n"}


def test_an_agents_docker_block_keeps_the_fleets_isolation(folder: ConfigFolder) -> None:
    fleet = folder.fleet(herdctl("{ docker: { enabled: true, memory: 4g } }", "docker: { pids_limit: 9 }"))

    assert spec_of(fleet, "a").docker == {"enabled": True, "memory": "4g", "pids_limit": 9}


def test_an_empty_instances_block_does_not_override_the_fleets(folder: ConfigFolder) -> None:
    fleet = folder.fleet(herdctl("{ instances: { max_concurrent: 4 } }", "instances: {}"))

    assert fleet.targets[0].max_concurrent == 4


def test_lists_replace_scalars_fill_gaps_and_servers_merge_by_name(folder: ConfigFolder) -> None:
    defaults = "{ model: m, max_turns: 9, allowed_tools: [A], mcp_servers: { x: { command: x }, y: { command: y } } }"

    fleet = folder.fleet(herdctl(defaults, "model: own\nallowed_tools: [B]\nmcp_servers: { y: { command: z } }"))

    spec = spec_of(fleet, "a")
    assert (spec.model, spec.max_turns, spec.allowed_tools) == ("own", 9, ("B",))
    assert spec.mcp_servers == {"x": {"command": "x"}, "y": {"command": "z"}}


def test_overrides_win_over_the_file_and_may_rename(folder: ConfigFolder) -> None:
    agent = "model: own\nschedules: { s: { type: interval, interval: 5m } }"

    fleet = folder.fleet(herdctl("{}", agent, "{ name: b, model: new, schedules: { s: { interval: 1h } } }"))

    assert spec_of(fleet, "b").model == "new"
    assert fleet.schedules[0].trigger.describe() == "every 1h"


def test_an_expression_in_overrides_replaces_the_cron_of_the_file(folder: ConfigFolder) -> None:
    agent = 'schedules: { s: { type: cron, cron: "0 1 * * *" } }'

    fleet = folder.fleet(herdctl("{}", agent, '{ schedules: { s: { expression: "0 2 * * *" } } }'))

    assert fleet.schedules[0].trigger.describe() == "at 02:00 every day"


def test_cron_wins_over_expression_in_one_herdctl_entry(folder: ConfigFolder) -> None:
    agent = 'schedules: { s: { type: cron, expression: "0 1 * * *", cron: "0 2 * * *" } }'

    fleet = folder.fleet(herdctl("{}", agent))

    assert fleet.schedules[0].trigger.describe() == "at 02:00 every day"


def test_a_working_directory_is_relative_to_the_agents_file(folder: ConfigFolder) -> None:
    bare = folder.fleet(herdctl("{}", ""))
    assert spec_of(bare, "a").working_directory == "agents"

    named = folder.fleet(herdctl("{}", "working_directory: { root: ../desk }"))

    assert spec_of(named, "a").working_directory == "desk"


def test_an_absolute_working_directory_stays_where_it_is(folder: ConfigFolder) -> None:
    fleet = folder.fleet(herdctl("{}", f"working_directory: {folder.path}/agents/../desk"))

    assert spec_of(fleet, "a").working_directory == str(folder.path / "desk")


def test_a_working_directory_in_a_sub_fleet_is_stored_relative_to_the_whole_fleet(folder: ConfigFolder) -> None:
    fleet = folder.fleet(
        {
            "herdbeat.yaml": "fleets: [{ path: far/off, name: off }]",
            "far/off/herdbeat.yaml": "commands: [{ name: a, command: [ls], working_directory: desk, every: 5m }]",
        }
    )

    (target,) = fleet.targets
    assert isinstance(target.spec, CommandSpec)
    assert target.spec.working_directory == "far/off/desk"


def test_an_agents_own_file_cannot_use_the_hosts_network(folder: ConfigFolder) -> None:
    result = folder.read(herdctl("{ docker: { enabled: true } }", "docker: { network: host }"))

    assert [problem.code for problem in result.errors] == [Code.UNKNOWN_KEY]
    assert result.fleet is not None
    assert result.fleet.targets == ()


def test_one_file_may_be_listed_twice_under_two_names(folder: ConfigFolder) -> None:
    listed = "agents: [{ path: a.yaml }, { path: a.yaml, overrides: { name: b } }]"

    fleet = folder.fleet({"herdctl.yaml": listed, "a.yaml": "name: a"})

    assert [target.name for target in fleet.targets] == ["a", "b"]


def test_policies_reach_endpoints_but_agent_settings_do_not(folder: ConfigFolder) -> None:
    fleet = folder.fleet("""
        defaults: { model: m, timeout: 7s, instances: { max_concurrent: 3 } }
        endpoints: [{ name: e, url: "https://example.com", every: 5m }]
    """)

    assert fleet.schedules[0].policies.timeout.total_seconds() == 7
    assert fleet.targets[0].max_concurrent == 3


def test_agents_without_a_budget_are_one_warning_each_and_only_in_our_own_file(folder: ConfigFolder) -> None:
    agent = "{ name: a, schedules: { x: { every: 5m }, y: { every: 6m } } }"

    ours = folder.read(f"agents: [{agent}, {{ name: b, runtime: command, command: [ls], every: 5m }}]")
    theirs = folder.read({"agents/a.yaml": agent, "herdctl.yaml": "agents: [{ path: agents/a.yaml }]"}, "herdctl.yaml")

    assert [problem.code for problem in ours.problems] == [Code.NO_BUDGET]
    assert theirs.problems == ()


def test_an_old_name_in_defaults_means_the_new_one(folder: ConfigFolder) -> None:
    result = folder.read(herdctl("{ workspace: ./desk }", ""))

    assert [problem.code for problem in result.problems] == [Code.DEPRECATED_KEY]
    assert result.fleet is not None
    assert spec_of(result.fleet, "a").working_directory == "agents/desk"


def test_a_message_about_a_key_on_the_wrong_level_has_its_written_name(folder: ConfigFolder) -> None:
    (problem,) = folder.read("defaults: { every: 5m }").errors

    assert problem.message == 'Unknown key "every".'
    assert problem.hint == '"every" belongs in a schedule.'


def test_webhook_and_chat_schedules_do_not_inherit_the_work_source(folder: ConfigFolder) -> None:
    schedules = "{ poll: { every: 5m }, hook: { type: webhook }, talk: { type: chat } }"
    agent = f"{{ name: a, work_source: {{ type: directory, path: ./in }}, schedules: {schedules} }}"

    fleet = folder.fleet(f"agents: [{agent}]")

    assert [each.name for each in fleet.schedules if each.work_source is not None] == ["poll"]


def test_a_webhook_may_have_a_work_source_of_its_own(folder: ConfigFolder) -> None:
    schedules = "{ hook: { type: webhook, work_source: { type: directory, path: ./in } } }"

    fleet = folder.fleet(f"agents: [{{ name: a, schedules: {schedules} }}]")

    assert fleet.schedules[0].work_source is not None
