"""Values behave as the library's dataclasses do; only their methods are made later."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from herdbeat.values import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A value with everything that a field can have."""

    dimensions: ClassVar[int] = 2
    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="", repr=False, kw_only=True)
    total: int = dataclasses.field(init=False, default=7)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclass(frozen=True, slots=True)
class LabelledPoint(Point):
    label: str = "a"


@dataclass(slots=True, kw_only=True)
class Counter:
    count: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return 7


AnyPoint: Any = Point
AnyCounter: Any = Counter


def test_fields_get_what_was_given_and_their_defaults() -> None:
    point = Point(1, tags=["t"], secret="s")

    assert (point.x, point.y, point.tags, point.secret, point.total) == (1, 0, ["t"], "s", 1)
    assert Point(1).tags is not Point(1).tags
    assert LabelledPoint(1, 2, label="b").total == 3


@pytest.mark.parametrize(
    "make",
    [AnyPoint, lambda: AnyPoint(1, 2, [], "secret"), lambda: AnyPoint(1, z=1), lambda: AnyCounter(1)],
    ids=["missing", "keyword only", "unknown", "all keyword only"],
)
def test_wrong_arguments_are_refused_with_the_name_of_the_class(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"(Point|Counter)\.__init__\(\)"):
        make()


def test_equal_values_have_one_hash() -> None:
    assert Point(1, 2, ["a"]) == Point(1, 2, ["b"])
    assert hash(Point(1, 2, ["a"])) == hash(Point(1, 2, ["b"]))
    assert Point(1) != Point(2)
    assert Point(1) != LabelledPoint(1)
    assert Counter() == Counter()


def test_methods_of_its_own_stay() -> None:
    assert Named("A") == Named("a")
    assert hash(Named("A")) == 7


def test_a_frozen_value_cannot_be_changed() -> None:
    point: Any = Point(1)

    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_what_is_not_to_be_shown_is_not_in_its_text() -> None:
    assert repr(Point(1, secret="hunter2")) == "Point(x=1, y=0, tags=[], total=1)"


def test_the_functions_of_the_library_know_it() -> None:
    point = Point(1, 2, secret="s")

    assert dataclasses.replace(point, y=5) == Point(1, 5, secret="s")
    assert dataclasses.asdict(Counter(count=3)) == {"count": 3}
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))
    match point:
        case Point(1, y):
            assert y == 2


LIST_COMPILED = """
import sys
import herdbeat.cli.commands.list, herdbeat.cli.commands.explain, herdbeat.cli.commands.status, herdbeat.cli.main
for name, module in list(sys.modules.items()):
    for each in vars(module).values() if name.startswith("herdbeat") else ():
        if isinstance(each, type) and each.__module__ == name and "__dataclass_params__" in vars(each):
            if each.__dataclass_params__.init:
                print(f"{name}.{each.__name__}")
"""


def test_what_every_command_loads_has_its_methods_made_late() -> None:
    """The library compiles six methods of each class at its import: a sixth of the processor time of `list`."""
    found = subprocess.run([sys.executable, "-c", LIST_COMPILED], capture_output=True, text=True, check=True)

    assert found.stdout.split() == [], "these use the library's decorator, not that of herdbeat.values"
