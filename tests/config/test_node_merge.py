from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.nodes import ConfigNode, PlainData, drop_keys, merge_nodes, rename_key, select_keys
from herdbeat.errors import SourceLocation

ABOVE = SourceLocation(file="above.yaml", line=1, column=1)
BELOW = SourceLocation(file="below.yaml", line=1, column=1)


def located(plain: PlainData, location: SourceLocation) -> ConfigNode:
    if isinstance(plain, dict):
        return ConfigNode({name: located(value, location) for name, value in plain.items()}, location)
    if isinstance(plain, list):
        return ConfigNode([located(value, location) for value in plain], location)
    return ConfigNode(plain, location)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
NAMES = st.sampled_from("abcd")
TREES = st.recursive(SCALARS | st.lists(SCALARS, max_size=2), lambda inner: st.dictionaries(NAMES, inner, max_size=3))
MAPPINGS = st.dictionaries(NAMES, TREES, max_size=4)


def test_mappings_are_merged_and_all_else_is_replaced() -> None:
    below = located({"a": {"x": 1, "y": [1, 2]}, "b": 1}, BELOW)
    above = located({"a": {"y": [3]}, "c": {"z": 1}}, ABOVE)

    merged = merge_nodes(below, above)

    assert merged.to_data() == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 1}}


def test_every_merged_value_keeps_its_location() -> None:
    merged = merge_nodes(located({"a": {"x": 1, "y": 1}}, BELOW), located({"a": {"y": 2}}, ABOVE))

    assert merged.find(("a", "x")).location == BELOW
    assert merged.find(("a", "y")).location == ABOVE


@given(MAPPINGS)
def test_merging_with_an_empty_mapping_changes_nothing(tree: dict[str, PlainData]) -> None:
    node = located(tree, ABOVE)

    assert merge_nodes(None, node).to_data() == merge_nodes(node, None).to_data() == tree
    assert merge_nodes(located({}, BELOW), node).to_data() == merge_nodes(node, located({}, BELOW)).to_data() == tree


@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_three_layers_merge_the_same_from_either_end(a: PlainData, b: PlainData, c: PlainData) -> None:
    low, middle, high = located(a, BELOW), located(b, BELOW), located(c, ABOVE)

    left, right = merge_nodes(merge_nodes(low, middle), high), merge_nodes(low, merge_nodes(middle, high))

    # A mapping that a scalar in the middle cuts off from the one below makes the two ways differ, rightly.
    if not _is_cut(a, b, c):
        assert left.to_data() == right.to_data()


def test_a_renamed_key_stays_in_its_position_and_never_overwrites() -> None:
    node = located({"a": 1, "old": 2, "b": 3}, BELOW)

    assert list(dict(rename_key(node, "old", "new").items())) == ["a", "new", "b"]
    assert rename_key(node, "old", "b").to_data() == {"a": 1, "b": 3}
    assert rename_key(node, "none", "new") is node


def test_keys_can_be_selected_or_dropped() -> None:
    node = located({"a": 1, "b": 2}, BELOW)

    picked = select_keys(node, {"a", "z"})

    assert picked is not None
    assert picked.to_data() == {"a": 1}
    assert drop_keys(node, "a").to_data() == {"b": 2}
    assert select_keys(located([1], BELOW), {"a"}) is None


def _is_cut(a: PlainData, b: PlainData, c: PlainData) -> bool:
    if not (isinstance(a, dict) and isinstance(c, dict)):
        return False
    if not isinstance(b, dict):
        return True
    return any(_is_cut(a[name], b[name], c[name]) for name in a.keys() & b.keys() & c.keys())
