from tests.config.folder import Folder

from herdbeat.codes import Code
from herdbeat.config import Reading
from herdbeat.domain.target import AgentSpec

SCOUT = "name: scout\nschedules: { look: { type: interval, interval: 1h } }"
TEAM = {"team/herdctl.yaml": "fleet: { name: team }\nagents: [{ path: a.yaml }]", "team/a.yaml": SCOUT}


def names_of(reading: Reading) -> list[str]:
    assert reading.fleet is not None
    return [target.name for target in reading.fleet.targets]


def codes_of(reading: Reading) -> list[Code]:
    return [problem.code for problem in reading.problems]


def test_a_sub_fleets_agents_carry_its_name(folder: Folder) -> None:
    reading = folder.read(TEAM | {"herdctl.yaml": "fleets: [{ path: team/herdctl.yaml }]"})

    assert names_of(reading) == ["team.scout"]
    assert reading.fleet is not None
    assert reading.fleet.schedules[0].id == "team.scout/look"


def test_the_name_comes_from_the_reference_then_the_file_then_the_folder(folder: Folder) -> None:
    files = TEAM | {"bare/herdctl.yml": "agents: [{ path: ../team/a.yaml }]"}
    fleets = "fleets: [{ path: team/herdctl.yaml, name: x }, { path: team/herdctl.yaml }, { path: bare/herdctl.yml }]"

    reading = folder.read(files | {"herdctl.yaml": fleets})

    assert names_of(reading) == ["x.scout", "team.scout", "bare.scout"]
    assert reading.errors == ()


def test_own_agents_come_first_then_each_sub_fleet_depth_first(folder: Folder) -> None:
    files = TEAM | {
        "deep/herdctl.yaml": "agents: [{ path: ../team/a.yaml }]\nfleets: [{ path: ../team/herdctl.yaml }]",
        "herdctl.yaml": """
            fleets: [{ path: deep/herdctl.yaml }, { path: team/herdctl.yaml }]
            agents: [{ path: own.yaml }]
        """,
        "own.yaml": "name: own",
    }

    assert names_of(folder.read(files)) == ["own", "deep.scout", "deep.team.scout", "team.scout"]


def test_defaults_cascade_and_the_nearest_wins(folder: Folder) -> None:
    team = "defaults: { model: near }\nagents: [{ path: a.yaml }]"
    root = """
        defaults: { model: far, max_turns: 3 }
        fleets: [{ path: team/herdctl.yaml, name: t, overrides: { defaults: { tools: [X] } } }]
    """

    fleet = folder.fleet({"team/herdctl.yaml": team, "team/a.yaml": SCOUT, "herdctl.yaml": root})

    spec = fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert (spec.model, spec.max_turns, spec.tools) == ("near", 3, ("X",))


def test_a_cycle_is_told_with_its_chain_and_the_rest_still_loads(folder: Folder) -> None:
    files = TEAM | {"herdctl.yaml": "fleets: [{ path: team/herdctl.yaml }]"}
    files["team/herdctl.yaml"] += "\nfleets: [{ path: ../herdctl.yaml, name: back }]"

    reading = folder.read(files)

    assert codes_of(reading) == [Code.FLEET_CYCLE]
    assert "herdctl.yaml → team/herdctl.yaml → herdctl.yaml" in reading.problems[0].message
    assert names_of(reading) == ["team.scout"]


def test_two_sub_fleets_of_one_name_are_refused(folder: Folder) -> None:
    fleets = "fleets: [{ path: team/herdctl.yaml }, { path: team/herdctl.yaml }]"

    assert codes_of(folder.read(TEAM | {"herdctl.yaml": fleets})) == [Code.DUPLICATE_NAME]


def test_a_broken_sub_fleet_costs_only_its_own_agents(folder: Folder) -> None:
    files = TEAM | {"bad/herdctl.yaml": "agnets: []\nagents: [{ path: ../team/a.yaml }]"}

    reading = folder.read(files | {"herdctl.yaml": "fleets: [{ path: bad/herdctl.yaml }, { path: team/herdctl.yaml }]"})

    assert codes_of(reading) == [Code.UNKNOWN_KEY]
    assert names_of(reading) == ["team.scout"]


def test_a_sub_fleets_server_has_no_effect_and_says_so(folder: Folder) -> None:
    command = "commands: [{ name: a, command: [ls], every: 1h }]"
    folder.write({"sub/herdbeat.yaml": f"server: {{ port: 99 }}\ntimezone: Asia/Tokyo\n{command}"})

    reading = folder.read("fleets: [{ path: sub/herdbeat.yaml }]")

    assert codes_of(reading) == [Code.NOT_SERVED]
    assert reading.fleet is not None
    assert reading.fleet.server.port == 3232
    assert reading.fleet.schedules[0].policies.zone.key == "Asia/Tokyo"


def test_an_import_in_a_sub_fleet_is_read_there(folder: Folder) -> None:
    files = {
        "sub/herdbeat.yaml": "imports: [{ agentd: .agentd }]",
        "sub/.agentd/agents/a.yml": "name: a",
        "sub/.agentd/workflows/w.yml": "{ name: w, agent: a, source: { type: manual }, prompt_template: x }",
        "herdbeat.yaml": "fleets: [{ path: sub/herdbeat.yaml }]\ndefaults: { budget: { usd_per_day: 1 } }",
    }

    fleet = folder.fleet(files)

    assert [schedule.id for schedule in fleet.schedules] == ["sub.a/w"]
    assert fleet.schedules[0].policies.budget is not None


def test_a_newer_version_is_refused_in_our_file_and_passed_over_in_herdctls(folder: Folder) -> None:
    assert codes_of(folder.read("version: 2")) == [Code.INVALID_VALUE]
    assert codes_of(folder.read({"herdctl.yaml": "version: 2"}, "herdctl.yaml")) == []


def test_the_web_block_of_herdctl_says_where_we_serve(folder: Folder) -> None:
    fleet = folder.fleet({"herdctl.yaml": "web: { enabled: true, port: 4000, host: localhost }"})

    assert (fleet.server.host, fleet.server.port) == ("127.0.0.1", 4000)


def test_fleets_that_name_the_next_one_twice_cannot_multiply_without_end(folder: Folder) -> None:
    twice = "fleets: [{{ path: {0}.yaml, name: a }}, {{ path: {0}.yaml, name: b }}]"
    folder.write({f"{level}.yaml": twice.format(level + 1) for level in range(1, 16)})

    reading = folder.read({"herdbeat.yaml": twice.format(1), "16.yaml": "agents: []"})

    assert codes_of(reading) == [Code.YAML_LIMIT]


def test_a_loop_of_links_is_told_as_an_unreadable_file(folder: Folder) -> None:
    (folder.path / "loop.yaml").symlink_to(folder.path / "loop.yaml")

    reading = folder.read("fleets: [{ path: loop.yaml, name: a }]\nagents: [{ path: loop.yaml }]")

    assert set(codes_of(reading)) == {Code.UNREADABLE_FILE}


def test_a_sub_fleet_may_be_named_by_its_folder(folder: Folder) -> None:
    reading = folder.read(TEAM | {"herdctl.yaml": "fleets: [{ path: ./team }]"})

    assert reading.errors == ()
    assert names_of(reading) == ["team.scout"]


def test_a_folder_without_a_fleet_is_told_where_it_is_named(folder: Folder) -> None:
    (folder.path / "empty").mkdir()

    (problem,) = folder.read({"herdctl.yaml": "fleets: [{ path: ./empty }]"}).errors

    assert problem.message == '"empty" is not a file.'
    assert str(problem.where) == "herdctl.yaml:1:18"


def test_an_agents_docker_block_without_enabled_keeps_the_container_and_says_so(folder: Folder) -> None:
    fleet = "defaults: { docker: { enabled: true } }\nagents: [{ path: a.yaml }]"

    reading = folder.read({"herdctl.yaml": fleet, "a.yaml": f"{SCOUT}\ndocker: {{ memory: 1g }}"})

    assert reading.fleet is not None
    spec = reading.fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    assert spec.docker == {"enabled": True, "memory": "1g"}
    assert codes_of(reading) == [Code.CHANGED_MEANING]


def test_names_that_no_file_can_have_are_problems_of_their_lines(folder: Folder) -> None:
    a, b, c = ("x" * length for length in (300, 301, 302))

    reading = folder.read(f"agents: [{{ path: {a} }}]\nfleets: [{{ path: {b} }}]\nimports: [{{ agentd: {c} }}]")

    assert [problem.where.line for problem in reading.errors if problem.where] == [1, 2, 3]
