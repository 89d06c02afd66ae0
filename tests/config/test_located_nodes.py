from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.yaml import parse_yaml


def tree() -> ConfigNode:
    found = parse_yaml("a: { b: [x, { c: 1 }] }\nd: 2\n", "a.yaml", Diagnostics())
    assert found is not None
    return found


def test_to_data_returns_the_written_data() -> None:
    assert tree().to_data() == {"a": {"b": ["x", {"c": 1}]}, "d": 2}


def test_a_path_that_does_not_exist_finds_the_deepest_existing_node() -> None:
    assert tree().find(("a", "b", 1, "c")).value == 1
    assert tree().find(("a", "b", 7, "c")).location.path == "a.b"
    assert tree().find(("a", "nothing")).location.path == "a"


def test_walking_visits_every_node_in_file_order() -> None:
    paths = [path for path, _ in tree().walk()]

    assert paths == [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("a", "b", 1, "c"), ("d",)]


def test_only_mappings_have_items_and_only_lists_have_elements() -> None:
    listed = tree().find(("a", "b"))

    assert next(listed.elements()).value == "x"
    assert list(listed.items()) == []
    assert [name for name, _ in tree().items()] == ["a", "d"]
    assert list(tree().elements()) == []


def test_a_problem_with_a_key_is_located_at_the_key() -> None:
    node = tree().find(("d",))

    assert (node.report_location.column, node.location.column) == (1, 4)
    assert tree().report_location == tree().location
