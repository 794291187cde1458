"""Arrays put together of elements' strings, against those encoded one by one; lists that are kept."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego import partial_aggregates as module
from kpg.runtime.ego.partial_aggregates import ArrayBuilder, Bags, ListCache
from kpg.runtime.kernels import bags as kernels
from kpg.runtime.mfp.python_calls import values_of, word_of
from kpg.runtime.types import BIGINT, NULL, TEXT, array
from kpg.runtime.values.arrays import array_of


def test_arrays_are_those_that_are_encoded_one_by_one() -> None:
    dictionary = Dictionary()
    answers = ArrayBuilder(BIGINT, 2, dictionary)
    elements = np.array([7, -3, 5, -(2**62), 9])
    words = answers.array_words(np.array([2, 0, 1, 2]), elements)
    expected = [array_of([7, -3]), None, array_of([5]), array_of([-(2**62), 9])]
    assert words.tolist() == [
        NULL if value is None else word_of(value, array(BIGINT), dictionary) for value in expected
    ]
    assert values_of(words, array(BIGINT), dictionary) == expected


@pytest.mark.parametrize(("few", "expected"), [(0, [[0, 4, 2, 1, 3], [5]]), (3, [[0, 4, 2], [5]])])
def test_texts_that_are_equally_frequent_go_by_their_letters(few: int, expected: list[list[int]]) -> None:
    dictionary = Dictionary()
    texts = ("zoo", "tea", "jam", "zap", "a\x01b", "")
    codes = [dictionary.code(text) for text in texts]
    answers = ArrayBuilder(TEXT, few, dictionary)
    found = np.array([[codes[0], codes[1], codes[2], codes[4], codes[3], codes[5]], [0, 2, 2, 1, 3, 0]])
    elements, sizes = answers.sort_elements(found, np.array([5, 1]))
    assert [part.tolist() for part in np.split(elements, np.cumsum(sizes)[:-1])] == [
        [codes[place] for place in one] for one in expected
    ]
    values = values_of(answers.array_words(sizes, elements), array(TEXT), dictionary)
    assert values == [array_of([texts[place] for place in one]) for one in expected]
    assert answers.bytes > 0


def test_of_many_elements_strings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_PIECES", 4)
    dictionary = Dictionary()
    answers = ArrayBuilder(BIGINT, 2, dictionary)
    for first in range(0, 40, 2):
        words = answers.array_words(np.array([2]), np.array([first, first + 1]))
        assert values_of(words, array(BIGINT), dictionary) == [array_of([first, first + 1])]
        assert len(answers._pieces) <= 7


def test_words_that_go_into_a_reply_are_forgotten_with_it() -> None:
    dictionary = Dictionary()
    answers = ArrayBuilder(BIGINT, 2, dictionary)
    known = len(dictionary)
    dictionary.begin_reply()
    with dictionary.reply_scope():
        assert answers.array_words(np.array([1]), np.array([5])).tolist() == [known]
    dictionary.end_reply(keep=False)
    assert len(dictionary) == known


def test_lists_are_handed_out_as_found_as_known_and_as_asked_before() -> None:
    bags, known, nodes = Bags(), ListCache(), np.array([1, 2, 1])
    bags.grow(3)
    pushed = np.array([1, 1, 0], np.uint8)
    bags.cached_result[nodes[:2]] = kernels.FREE + 1 + np.arange(2)
    size = np.array([3, 1, kernels.SAME])
    assert known.collect_lists(nodes, size, np.array([7, 8, 9, 5]), pushed, bags).tolist() == [
        7,
        8,
        9,
        5,
        7,
        8,
        9,
    ]
    assert size.tolist() == [3, 1, 3]
    assert bags.cached_result.tolist() == [kernels.FREE, 0, kernels.FREE]
    size = np.array([0, kernels.KNOWN])
    bags.cached_result[0] = kernels.FREE + 1
    assert known.collect_lists(np.array([0, 1]), size, np.empty(0, np.int64), pushed, bags).tolist() == [
        7,
        8,
        9,
    ]
    assert size.tolist() == [0, 3]
    assert bags.cached_result.tolist() == [4, 0, kernels.FREE]


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is no room for a list it is not known; then the log is larger, or all is forgotten."""
    monkeypatch.setattr(module, "LEAST_ROOM", 1 << 13)
    bags, known, pushed = Bags(), ListCache(), np.ones(1, np.uint8)
    bags.grow(1)
    forgotten, missed = 0, 0
    for turn in range(40):
        known.make_room(bags)
        forgotten += bags.cached_result[0] == kernels.FREE
        bags.cached_result[0] = kernels.FREE + 1
        given = np.full(1000, turn)
        size = np.array([1000])
        assert (known.collect_lists(np.zeros(1, np.int64), size, given, pushed, bags) == turn).all()
        missed += bags.cached_result[0] == kernels.FREE
        assert known.bytes <= 8 << 13
    assert known.bytes == 8 << 13 and missed >= 4 and forgotten >= 4
