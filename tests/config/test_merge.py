from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.merge import merge, only, renamed, without
from herdbeat.errors import Place
from herdbeat.located import Located, Plain

ABOVE = Place(file="above.yaml", line=1, column=1)
BELOW = Place(file="below.yaml", line=1, column=1)


def located(plain: Plain, place: Place) -> Located:
    if isinstance(plain, dict):
        return Located({name: located(value, place) for name, value in plain.items()}, place)
    if isinstance(plain, list):
        return Located([located(value, place) for value in plain], place)
    return Located(plain, place)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
NAMES = st.sampled_from("abcd")
TREES = st.recursive(SCALARS | st.lists(SCALARS, max_size=2), lambda inner: st.dictionaries(NAMES, inner, max_size=3))
MAPPINGS = st.dictionaries(NAMES, TREES, max_size=4)


def test_mappings_are_merged_and_all_else_is_replaced() -> None:
    below = located({"a": {"x": 1, "y": [1, 2]}, "b": 1}, BELOW)
    above = located({"a": {"y": [3]}, "c": {"z": 1}}, ABOVE)

    merged = merge(below, above)

    assert merged.plain() == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 1}}


def test_every_value_keeps_its_place() -> None:
    merged = merge(located({"a": {"x": 1, "y": 1}}, BELOW), located({"a": {"y": 2}}, ABOVE))

    assert merged.find(("a", "x")).place == BELOW
    assert merged.find(("a", "y")).place == ABOVE


@given(MAPPINGS)
def test_nothing_below_or_above_changes_nothing(tree: dict[str, Plain]) -> None:
    node = located(tree, ABOVE)

    assert merge(None, node).plain() == merge(node, None).plain() == tree
    assert merge(located({}, BELOW), node).plain() == merge(node, located({}, BELOW)).plain() == tree


@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_three_layers_merge_the_same_from_either_end(a: Plain, b: Plain, c: Plain) -> None:
    low, middle, high = located(a, BELOW), located(b, BELOW), located(c, ABOVE)

    left, right = merge(merge(low, middle), high), merge(low, merge(middle, high))

    # A mapping that a scalar in the middle cuts off from the one below makes the two ways differ, rightly.
    if not _is_cut(a, b, c):
        assert left.plain() == right.plain()


def test_a_renamed_key_stays_in_its_position_and_never_overwrites() -> None:
    node = located({"a": 1, "old": 2, "b": 3}, BELOW)

    assert list(dict(renamed(node, "old", "new").items())) == ["a", "new", "b"]
    assert renamed(node, "old", "b").plain() == {"a": 1, "b": 3}
    assert renamed(node, "none", "new") is node


def test_keys_can_be_picked_or_left_out() -> None:
    node = located({"a": 1, "b": 2}, BELOW)

    picked = only(node, {"a", "z"})

    assert picked is not None
    assert picked.plain() == {"a": 1}
    assert without(node, "a").plain() == {"b": 2}
    assert only(located([1], BELOW), {"a"}) is None


def _is_cut(a: Plain, b: Plain, c: Plain) -> bool:
    if not (isinstance(a, dict) and isinstance(c, dict)):
        return False
    if not isinstance(b, dict):
        return True
    return any(_is_cut(a[name], b[name], c[name]) for name in a.keys() & b.keys() & c.keys())
