from tests.support.config_folder import ConfigFolder

from herdbeat.config.loader import LoadResult
from herdbeat.domain.target import AgentSpec
from herdbeat.error_codes import Code

SCOUT = "name: scout\nschedules: { look: { type: interval, interval: 1h } }"
TEAM = {"team/herdctl.yaml": "fleet: { name: team }\nagents: [{ path: a.yaml }]", "team/a.yaml": SCOUT}


def names_of(result: LoadResult) -> list[str]:
    assert result.fleet is not None
    return [target.name for target in result.fleet.targets]


def codes_of(result: LoadResult) -> list[Code]:
    return [problem.code for problem in result.problems]


def test_agents_of_a_sub_fleet_have_its_name_as_prefix(folder: ConfigFolder) -> None:
    result = folder.read(TEAM | {"herdctl.yaml": "fleets: [{ path: team/herdctl.yaml }]"})

    assert names_of(result) == ["team.scout"]
    assert result.fleet is not None
    assert result.fleet.schedules[0].id == "team.scout/look"


def test_the_name_comes_from_the_reference_then_the_file_then_the_folder(folder: ConfigFolder) -> None:
    files = TEAM | {"bare/herdctl.yml": "agents: [{ path: ../team/a.yaml }]"}
    fleets = "fleets: [{ path: team/herdctl.yaml, name: x }, { path: team/herdctl.yaml }, { path: bare/herdctl.yml }]"

    result = folder.read(files | {"herdctl.yaml": fleets})

    assert names_of(result) == ["x.scout", "team.scout", "bare.scout"]
    assert result.errors == ()


def test_own_agents_come_first_then_each_sub_fleet_depth_first(folder: ConfigFolder) -> None:
    files = TEAM | {
        "deep/herdctl.yaml": "agents: [{ path: ../team/a.yaml }]\nfleets: [{ path: ../team/herdctl.yaml }]",
        "herdctl.yaml": """
            fleets: [{ path: deep/herdctl.yaml }, { path: team/herdctl.yaml }]
            agents: [{ path: own.yaml }]
        """,
        "own.yaml": "name: own",
    }

    assert names_of(folder.read(files)) == ["own", "deep.scout", "deep.team.scout", "team.scout"]


def test_defaults_cascade_and_the_nearest_wins(folder: ConfigFolder) -> None:
    team = "defaults: { model: near }\nagents: [{ path: a.yaml }]"
    root = """
        defaults: { model: far, max_turns: 3 }
        fleets: [{ path: team/herdctl.yaml, name: t, overrides: { defaults: { tools: [X] } } }]
    """

    fleet = folder.fleet({"team/herdctl.yaml": team, "team/a.yaml": SCOUT, "herdctl.yaml": root})

    spec = fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert (spec.model, spec.max_turns, spec.tools) == ("near", 3, ("X",))


def test_a_cycle_is_reported_with_its_chain_and_the_rest_still_loads(folder: ConfigFolder) -> None:
    files = TEAM | {"herdctl.yaml": "fleets: [{ path: team/herdctl.yaml }]"}
    files["team/herdctl.yaml"] += "\nfleets: [{ path: ../herdctl.yaml, name: back }]"

    result = folder.read(files)

    assert codes_of(result) == [Code.FLEET_CYCLE]
    assert "herdctl.yaml → team/herdctl.yaml → herdctl.yaml" in result.problems[0].message
    assert names_of(result) == ["team.scout"]


def test_two_sub_fleets_of_one_name_are_rejected(folder: ConfigFolder) -> None:
    fleets = "fleets: [{ path: team/herdctl.yaml }, { path: team/herdctl.yaml }]"

    assert codes_of(folder.read(TEAM | {"herdctl.yaml": fleets})) == [Code.DUPLICATE_NAME]


def test_an_invalid_sub_fleet_loses_only_its_own_agents(folder: ConfigFolder) -> None:
    files = TEAM | {"bad/herdctl.yaml": "agnets: []\nagents: [{ path: ../team/a.yaml }]"}

    result = folder.read(files | {"herdctl.yaml": "fleets: [{ path: bad/herdctl.yaml }, { path: team/herdctl.yaml }]"})

    assert codes_of(result) == [Code.UNKNOWN_KEY]
    assert names_of(result) == ["team.scout"]


def test_the_server_of_a_sub_fleet_has_no_effect_and_is_a_warning(folder: ConfigFolder) -> None:
    command = "commands: [{ name: a, command: [ls], every: 1h }]"
    folder.write({"sub/herdbeat.yaml": f"server: {{ port: 99 }}\ntimezone: Asia/Tokyo\n{command}"})

    result = folder.read("fleets: [{ path: sub/herdbeat.yaml }]")

    assert codes_of(result) == [Code.NOT_SERVED]
    assert result.fleet is not None
    assert result.fleet.server.port == 3232
    assert result.fleet.schedules[0].policies.zone.key == "Asia/Tokyo"


def test_an_import_in_a_sub_fleet_is_read_there(folder: ConfigFolder) -> None:
    files = {
        "sub/herdbeat.yaml": "imports: [{ agentd: .agentd }]",
        "sub/.agentd/agents/a.yml": "name: a",
        "sub/.agentd/workflows/w.yml": "{ name: w, agent: a, source: { type: manual }, prompt_template: x }",
        "herdbeat.yaml": "fleets: [{ path: sub/herdbeat.yaml }]\ndefaults: { budget: { usd_per_day: 1 } }",
    }

    fleet = folder.fleet(files)

    assert [schedule.id for schedule in fleet.schedules] == ["sub.a/w"]
    assert fleet.schedules[0].policies.budget is not None


def test_a_newer_version_is_rejected_in_our_file_and_ignored_in_herdctls(folder: ConfigFolder) -> None:
    assert codes_of(folder.read("version: 2")) == [Code.INVALID_VALUE]
    assert codes_of(folder.read({"herdctl.yaml": "version: 2"}, "herdctl.yaml")) == []


def test_the_web_block_of_herdctl_sets_the_server_address(folder: ConfigFolder) -> None:
    fleet = folder.fleet({"herdctl.yaml": "web: { enabled: true, port: 4000, host: localhost }"})

    assert (fleet.server.host, fleet.server.port) == ("127.0.0.1", 4000)


def test_the_number_of_sub_fleets_is_limited(folder: ConfigFolder) -> None:
    twice = "fleets: [{{ path: {0}.yaml, name: a }}, {{ path: {0}.yaml, name: b }}]"
    folder.write({f"{level}.yaml": twice.format(level + 1) for level in range(1, 16)})

    result = folder.read({"herdbeat.yaml": twice.format(1), "16.yaml": "agents: []"})

    assert codes_of(result) == [Code.YAML_LIMIT]


def test_a_loop_of_links_is_reported_as_an_unreadable_file(folder: ConfigFolder) -> None:
    (folder.path / "loop.yaml").symlink_to(folder.path / "loop.yaml")

    result = folder.read("fleets: [{ path: loop.yaml, name: a }]\nagents: [{ path: loop.yaml }]")

    assert set(codes_of(result)) == {Code.UNREADABLE_FILE}


def test_a_sub_fleet_may_be_named_by_its_folder(folder: ConfigFolder) -> None:
    result = folder.read(TEAM | {"herdctl.yaml": "fleets: [{ path: ./team }]"})

    assert result.errors == ()
    assert names_of(result) == ["team.scout"]


def test_a_folder_without_a_fleet_is_reported_at_its_reference(folder: ConfigFolder) -> None:
    (folder.path / "empty").mkdir()

    (problem,) = folder.read({"herdctl.yaml": "fleets: [{ path: ./empty }]"}).errors

    assert problem.message == '"empty" is not a regular file.'
    assert str(problem.where) == "herdctl.yaml:1:18"


def test_a_docker_block_without_enabled_keeps_the_container_and_is_a_warning(folder: ConfigFolder) -> None:
    fleet = "defaults: { docker: { enabled: true } }\nagents: [{ path: a.yaml }]"

    result = folder.read({"herdctl.yaml": fleet, "a.yaml": f"{SCOUT}\ndocker: {{ memory: 1g }}"})

    assert result.fleet is not None
    spec = result.fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert spec.docker == {"enabled": True, "memory": "1g"}
    assert codes_of(result) == [Code.CHANGED_MEANING]


def test_impossible_file_names_are_reported_at_their_lines(folder: ConfigFolder) -> None:
    a, b, c = ("x" * length for length in (300, 301, 302))

    result = folder.read(f"agents: [{{ path: {a} }}]\nfleets: [{{ path: {b} }}]\nimports: [{{ agentd: {c} }}]")

    assert [problem.where.line for problem in result.errors if problem.where] == [1, 2, 3]
