"""Values come back as they were, arrays without a copy; other bytes are refused."""

import enum
from dataclasses import field

import numpy as np
import pytest

from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import Codec, Custom, DamagedError


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Leaf:
    value: object
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Pair:
    left: object
    right: object
    derived: int = field(default=7, init=False)


class Name(str):
    number = 0


CODEC = Codec((Leaf, Pair, Colour), (Custom("name", Name, lambda one: str(one), lambda text: Name(text)),))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**63,
        -(2**200),
        1.5,
        float("inf"),
        "",
        "ä\ud800€",
        b"",
        b"\x00\xff",
        (),
        (1, (2, ("x", "x"))),
        [1, [2]],
        {1, 2},
        frozenset({"a"}),
        {"a": 1, ("b", 2): [None]},
        Colour.BLUE,
        Leaf(3, Colour.BLUE),
        Pair(Leaf(1), Leaf((Leaf("x"), Leaf("x")))),
    ],
    ids=repr,
)
def test_values_come_back(value: object) -> None:
    found = CODEC.decode(CODEC.dumps(value))
    assert found == value
    assert type(found) is type(value)
    assert len(CODEC.dumps(value)) % 8 == 0


def test_not_a_number_and_numpy_scalars() -> None:
    assert np.isnan(CODEC.decode(CODEC.dumps(float("nan"))))
    assert CODEC.decode(CODEC.dumps(np.int64(-5))) == -5


@pytest.mark.parametrize("kind", ["<i8", "<u8", "|u1", "<i4", "<f8", "|b1", ">i4"])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 5), (2, 0), ()])
def test_arrays_come_back(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(kind)
    others = np.arange(5, dtype=np.uint8)
    first, second, text = CODEC.decode(CODEC.dumps((array, others, "x")))
    assert first.tolist() == array.tolist()
    assert first.shape == shape
    assert second.tolist() == [0, 1, 2, 3, 4]
    assert text == "x"


def test_arrays_are_not_copied() -> None:
    data = CODEC.dumps(np.arange(1000))
    found = CODEC.decode(data)
    assert np.shares_memory(found, np.frombuffer(data, np.uint8))
    array = np.arange(1000)
    assert any(
        np.shares_memory(np.frombuffer(piece, np.uint8), array)
        for piece in CODEC.encode(array)
        if len(piece) > 100
    )


def test_one_object_stays_one() -> None:
    leaf = Leaf("x" * 100)
    value = (leaf, Pair(leaf, leaf), Leaf("x" * 100))
    first, pair, other = CODEC.decode(CODEC.dumps(value))
    assert first is pair.left is pair.right
    assert other is not first
    deep: object = leaf
    for _ in range(60):
        deep = Pair(deep, deep)
    assert len(CODEC.dumps(deep)) < 1000
    assert len(CODEC.dumps(("word",) * 1000)) < 5000


def test_values_of_other_classes_by_their_own_form() -> None:
    name = Name("f")
    first, second = CODEC.decode(CODEC.dumps((name, name)))
    assert type(first) is Name
    assert first is second
    assert first == "f"


def test_what_has_no_form_is_refused() -> None:
    for value in (object(), lambda: 1, np.array([object()]), (1, [Codec])):
        with pytest.raises(TypeError, match="has no form in bytes"):
            CODEC.dumps(value)


def test_a_field_that_came_later_has_its_default() -> None:
    @dataclass(frozen=True, slots=True)
    class Early:
        value: int

    @dataclass(frozen=True, slots=True)
    class Late:
        value: int
        more: str = "new"

    old, new = Codec(), Codec()
    old.add(Early, "Thing")
    new.add(Late, "Thing")
    assert new.decode(old.dumps(Early(3))) == Late(3, "new")
    with pytest.raises(DamagedError, match="more"):
        old.decode(new.dumps(Late(3, "x")))


def test_a_class_that_is_not_known_is_named() -> None:
    with pytest.raises(DamagedError, match='"Leaf" is not known'):
        Codec().decode(CODEC.dumps(Leaf(1)))
    with pytest.raises(DamagedError, match='"name" is not known'):
        Codec((Leaf, Colour)).decode(CODEC.dumps(Leaf(Name("f"))))


def test_two_classes_of_one_name_are_refused() -> None:
    codec = Codec((Leaf,))
    with pytest.raises(ValueError, match="two classes are called Leaf"):
        codec.add(Pair, "Leaf")


def test_any_bytes_are_a_value_or_refused() -> None:
    random = np.random.default_rng(1)
    data = CODEC.dumps((Leaf(1), Pair("abc", np.arange(9)), {"x": (1.5, Colour.BLUE, 2**70)}, Name("n")))
    for _ in range(3000):
        broken = bytearray(data)
        for _ in range(int(random.integers(1, 4))):
            broken[int(random.integers(len(broken)))] = int(random.integers(256))
        if random.random() < 0.3:
            del broken[int(random.integers(len(broken))) :]
        try:
            CODEC.decode(bytes(broken))
        except (DamagedError, MemoryError, RecursionError):
            continue
