"""Classes made by ``records.dataclass`` do what those of the standard library do."""

import copy
import dataclasses
import pickle
import re
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from kpg.runtime import records

Made = Callable[..., Any]
"""A class, of either library."""
LIBRARIES = [dataclasses.dataclass, records._dataclass]


def classes(library: Any) -> dict[str, Made]:
    """Classes of every kind that there is, made by one library."""

    @library(frozen=True, slots=True)
    class Nothing:
        pass

    @library(frozen=True, slots=True)
    class One:
        """A value."""

        a: Any

    @library(frozen=True, slots=True)
    class Fields:
        a: int
        hidden: int = field(default=7, repr=False)
        apart: int = field(default=8, compare=False)
        unhashed: Any = field(default=9, hash=False)
        many: list[int] = field(default_factory=lambda: [1, 2], hash=False)
        made: int = field(default=11, init=False)
        listed: list[int] = field(default_factory=list, init=False, hash=False)
        named: str = field(default="x", kw_only=True)

    @library(slots=True)
    class Plain:
        a: int
        b: str = "b"

    @library(slots=True)
    class Derived(Plain):
        b: str = "c"
        c: int = field(init=False)

        def __post_init__(self) -> None:
            self.c = self.a + 1

    @library(slots=True, eq=False, kw_only=True)
    class Identical:
        a: int
        b: int = 2

    @library(slots=True, eq=False, weakref_slot=True)
    class Referred:
        a: int

    @library(frozen=True)
    class Loose:
        a: int
        b: tuple[int, ...] = ()

    @library(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 42

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    @library(frozen=True, slots=True)
    class OwnEquality:
        a: int
        b: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality) and other.a == self.a

    @library(frozen=True, slots=True, repr=False)
    class Mute:
        a: int

    return {name: made for name, made in locals().items() if isinstance(made, type)}


THEIRS, OURS = map(classes, LIBRARIES)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Nothing", (), {}),
    ("One", (float("nan"),), {}),
    ("One", ((1, "x"),), {}),
    ("Fields", (1,), {}),
    ("Fields", (1, 2, 3, None, [4]), {"named": "y"}),
    ("Plain", (1,), {}),
    ("Plain", (), {"b": "x", "a": 2}),
    ("Derived", (5,), {}),
    ("Identical", (), {"a": 1}),
    ("Referred", (3,), {}),
    ("Loose", (1, (2, 3)), {}),
    ("Own", (1,), {}),
    ("OwnEquality", (1, 2), {}),
]


def said(act: Callable[[], Any]) -> Any:
    """What came of it: a value, or an error's type and text without addresses and functions' places."""
    try:
        return act()
    except Exception as error:
        return type(error), re.sub(r"test_records\S*|\S*<locals>\.", "", str(error))


def both(act: Callable[[dict[str, Made]], Any]) -> None:
    """It comes to the same with the classes of both libraries."""
    assert said(lambda: act(OURS)) == said(lambda: act(THEIRS))


@pytest.mark.parametrize(("name", "args", "named"), CALLS)
def test_instances_are_the_same(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    def values(made: dict[str, Made]) -> Any:
        one = made[name](*args, **named)
        shown = repr(one) if "object at" not in repr(one) else None
        fields = [(item.name, getattr(one, item.name)) for item in dataclasses.fields(one)]
        return fields, shown, getattr(made[name], "__match_args__", None), hasattr(one, "__dict__")

    both(values)


@pytest.mark.parametrize(("name", "args", "named"), CALLS)
def test_equality_and_hashes_are_the_same(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    def values(made: dict[str, Made]) -> Any:
        one, other = made[name](*args, **named), made[name](*args, **named)
        hashes = said(lambda: hash(one) == hash(other)), type(one).__hash__ is None
        by_fields = said(lambda: hash(one)) if type(one).__eq__ is not object.__eq__ else None
        return one == other, one == one, one != other, one.__eq__(3), hashes, by_fields

    both(values)


@pytest.mark.parametrize("change", [{"apart": 0}, {"unhashed": 0}, {"hidden": 0}, {"many": []}])
def test_fields_count_where_they_are_to(change: dict[str, Any]) -> None:
    def values(made: dict[str, Made]) -> Any:
        one, other = made["Fields"](1), made["Fields"](1, **change)
        return one == other, hash(one) == hash(other), repr(other)

    both(values)


def test_instances_of_a_subclass_are_not_equal() -> None:
    both(lambda made: (made["Plain"](1, "c") == made["Derived"](1), made["Derived"](1) == made["Derived"](1)))


@pytest.mark.parametrize("name", ["Nothing", "One", "Fields", "Loose", "Own"])
@pytest.mark.parametrize("attribute", ["a", "other"])
def test_frozen_ones_refuse(name: str, attribute: str) -> None:
    args = () if name == "Nothing" else (1,)
    one = OURS[name](*args)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{attribute}'"):
        setattr(one, attribute, 2)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{attribute}'"):
        delattr(one, attribute)


@pytest.mark.parametrize(
    ("name", "args", "named"),
    [
        ("One", (), {}),
        ("One", (1, 2), {}),
        ("Plain", (1,), {"d": 4}),
        ("Identical", (1,), {}),
        ("One", (1,), {"a": 2}),
    ],
)
def test_wrong_calls_are_refused_in_the_same_words(
    name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    both(lambda made: made[name](*args, **named))


def test_defaults_are_made_anew() -> None:
    first, second = OURS["Fields"](1), OURS["Fields"](1)
    assert first.many == second.many == [1, 2]
    assert first.many is not second.many
    assert first.listed is not second.listed


def test_replacing() -> None:
    both(lambda made: dataclasses.replace(made["Fields"](1, many=[3]), a=5).many)
    both(lambda made: dataclasses.asdict(made["Derived"](1)))
    both(lambda made: dataclasses.replace(made["Loose"](1), c=5))


def test_the_first_init_is_replaced_by_the_compiled_one() -> None:
    made = classes(records._dataclass)["Derived"]
    first = vars(made)["__init__"]
    assert made(1).c == 2
    assert vars(made)["__init__"] is not first
    again = made.__new__(made)  # type: ignore[call-overload]
    first(again, 3)
    assert again.c == 4


def test_an_init_is_called_through_a_subclass_without_one() -> None:
    class Sub(OURS["Plain"]):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(7)

    assert (Sub().a, Sub().b) == (7, "b")


@records._dataclass(frozen=True, slots=True)
class Pickled:
    """At the top of its module, where pickle finds it."""

    a: int
    b: list[Any] = field(default_factory=list, compare=False)


def test_pickles_and_copies() -> None:
    one = Pickled(1, [2])
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
        assert (other.a, other.b) == (1, [2])
        assert other == one
    assert copy.deepcopy(one).b is not one.b


def test_a_cycle_is_shown() -> None:
    one = Pickled(1)
    one.b.append(one)
    assert repr(one) == "Pickled(a=1, b=[...])"


def test_weak_references() -> None:
    one = OURS["Referred"](1)
    assert weakref.ref(one)() is one
    with pytest.raises(TypeError):
        weakref.ref(OURS["Plain"](1))


def test_a_class_that_is_not_called_is_made_too() -> None:
    @records._dataclass
    class Bare:
        a: int

    assert Bare(2) == Bare(a=2)
    assert Bare.__doc__ == "Bare"
