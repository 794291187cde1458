"""The dictionary: strings to codes and back."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.types import NULL


def test_codes_are_dense_in_order_of_first_occurrence() -> None:
    dictionary = Dictionary()
    assert dictionary.intern(["b", "", "a", None, "b", "é"]).tolist() == [0, 1, 2, NULL, 0, 3]
    assert len(dictionary) == 4
    assert dictionary.decode(np.array([3, NULL, 1])) == ["é", None, ""]


def test_code_interns_and_lookup_does_not() -> None:
    dictionary = Dictionary()
    assert dictionary.lookup("x") is None
    assert dictionary.code("x") == 0
    assert dictionary.lookup("x") == 0
    assert dictionary.get(0) == "x"
    with pytest.raises(IndexError):
        dictionary.get(1)


@given(st.lists(st.none() | st.text(max_size=20), max_size=60))
def test_round_trip(strings: list[str | None]) -> None:
    dictionary = Dictionary()
    words = dictionary.intern(strings)
    assert dictionary.decode(words) == strings
    assert dictionary.decode_arrow(words).to_pylist() == strings
    assert len(dictionary) == len({string for string in strings if string is not None})


def test_a_hundred_thousand_strings() -> None:
    strings = [f"customer {i * 7919 % 100_003}" for i in range(100_000)]
    dictionary = Dictionary()
    words = dictionary.intern_arrow(pa.array(strings))
    assert words.tolist() == list(range(100_000))
    assert dictionary.decode(words) == strings
    assert dictionary.intern_arrow(pa.array(strings[::-1])).tolist() == list(range(100_000))[::-1]
    assert dictionary.bytes >= sum(map(len, strings))


def test_room_for_strings_that_did_not_come_is_given_up() -> None:
    dictionary = Dictionary()
    dictionary.intern_arrow(pa.array(["a", "b", "c"] * 50_000))
    assert dictionary.bytes == 3 + 8 * 3 + 8 * (1 << 19)
    dictionary.shrink()
    assert dictionary.bytes == 3 + 8 * 3 + 8 * (1 << 10)
    assert dictionary.intern(["c", "d", "a", "b"]).tolist() == [2, 3, 0, 1]
    several = [f"text {n}" for n in range(3000)]
    dictionary.intern_arrow(pa.array(several))
    before = dictionary.bytes
    dictionary.shrink()
    assert dictionary.bytes == before
    assert dictionary.intern(several).tolist() == list(range(4, 3004))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["b", None, "a", "b"], pa.string()),
        pa.array(["b", None, "a", "b"], pa.large_string()),
        pa.array(["b", None, "a", "b"], pa.string_view()),
        pa.array(["b", None, "a", "b"]).dictionary_encode(),
        pa.array(["x", "b", None, "a", "b"]).slice(1),
        pa.chunked_array([["b", None], ["a", "b"]]),
    ],
    ids=["string", "large", "view", "dictionary", "slice", "chunks"],
)
def test_every_arrow_encoding_of_text(array: "pa.Array") -> None:
    dictionary = Dictionary()
    words = dictionary.intern_arrow(array)
    assert dictionary.decode(words) == ["b", None, "a", "b"]


def test_empty_and_null_arrays() -> None:
    dictionary = Dictionary()
    assert dictionary.intern_arrow(pa.array([], pa.string())).tolist() == []
    assert dictionary.intern_arrow(pa.chunked_array([], pa.string())).tolist() == []
    assert dictionary.intern([None, None]).tolist() == [NULL, NULL]
    assert dictionary.decode_arrow(np.empty(0, dtype=np.int64)).to_pylist() == []
    assert len(dictionary) == 0


def test_read_only_buffers_are_taken() -> None:
    data = pa.py_buffer(b"abc")
    offsets = pa.py_buffer(np.array([0, 1, 3], dtype=np.int32).tobytes())
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    assert Dictionary().intern_arrow(array).tolist() == [0, 1]


def test_codes_agree_with_a_dict_across_blocks_and_growth() -> None:
    random = np.random.default_rng(17)
    dictionary = Dictionary()
    expected: dict[str, int] = {}
    for size in (1, 63, 64, 65, 129, 1000, 5000):
        numbers = random.integers(0, 2 * size, size).tolist()
        strings = [None if n % 11 == 5 else "ß" * (n % 13) + str(n) * (n % 3) for n in numbers]
        codes = [NULL if s is None else expected.setdefault(s, len(expected)) for s in strings]
        assert dictionary.intern_arrow(pa.array(strings, pa.string())).tolist() == codes
    assert dictionary.decode(np.arange(len(expected))) == list(expected)
    assert [dictionary.lookup(string) for string in expected] == list(expected.values())


@pytest.mark.parametrize("strings", [["a", "\ud800"], ["\udfff"] * 500])
def test_half_of_a_surrogate_pair_is_no_text(strings: list[str | None]) -> None:
    dictionary = Dictionary()
    with pytest.raises(DataError, match="half of a surrogate pair, is not Unicode"):
        dictionary.intern(strings)
    with pytest.raises(DataError):
        dictionary.code("\ud800")
    assert dictionary.code("b") == 0


def test_strings_of_a_reply_are_forgotten_with_it() -> None:
    dictionary = Dictionary()
    dictionary.intern(["a", "b"])
    before = dictionary.bytes
    for number in range(50):
        dictionary.begin_reply()
        words = dictionary.intern_for_reply(["b", f"made {number}", None])
        assert dictionary.decode(words) == ["b", f"made {number}", None]
        dictionary.end_reply(keep=False)
    assert dictionary.bytes == before and len(dictionary) == 2
    assert dictionary.intern(["made 7", "a", "b"]).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "keep",
    [
        lambda dictionary: dictionary.code("made"),
        lambda dictionary: dictionary.intern(["made"]),
        lambda dictionary: dictionary.intern(["another"]),
        lambda dictionary: dictionary.lookup("made"),
        len,
        lambda dictionary: dictionary.make_permanent(1),
    ],
    ids=["code", "intern", "new", "lookup", "len", "keep"],
)
def test_strings_of_a_reply_stay_if_somebody_is_given_one(keep: Callable[[Dictionary], object]) -> None:
    dictionary = Dictionary()
    dictionary.code("a")
    dictionary.begin_reply()
    dictionary.intern_for_reply(["made"])
    keep(dictionary)
    dictionary.end_reply(keep=False)
    assert dictionary.lookup("made") == 1 and dictionary.get(1) == "made"
    dictionary.begin_reply()
    assert dictionary.intern_for_reply(["long"]).tolist() == [len(dictionary) - 1]
    dictionary.end_reply(keep=True)
    assert dictionary.lookup("long") is not None


def test_words_pass_only_while_a_reply_is_made() -> None:
    dictionary = Dictionary()
    with dictionary.reply_scope():
        assert not dictionary.is_for_reply
    dictionary.begin_reply()
    with dictionary.reply_scope():
        assert dictionary.is_for_reply
    assert not dictionary.is_for_reply
    dictionary.end_reply(keep=False)


def test_random_replies_agree_with_a_dict() -> None:
    random = np.random.default_rng(5)
    dictionary = Dictionary()
    expected: dict[str, int] = {}
    for _ in range(400):
        dictionary.begin_reply()
        known, kept = dict(expected), False
        for _ in range(int(random.integers(1, 4))):
            strings = [f"{n:x}" * (n % 5) for n in random.integers(0, 4000, 20).tolist()]
            passing = bool(random.random() < 0.9)
            intern = dictionary.intern_for_reply if passing else dictionary.intern
            codes = [known.setdefault(string, len(known)) for string in strings]
            assert intern(strings).tolist() == codes
            kept = kept or (not passing and max(codes) >= len(expected))
        grown = dictionary._slots is not dictionary._reply_slots
        dictionary.end_reply(keep=False)
        expected = known if kept or grown else expected
        assert dictionary._count == len(expected)
    assert dictionary.decode(np.arange(len(expected))) == list(expected)
    assert [dictionary.lookup(string) for string in expected] == list(expected.values())
