"""Arrays that are put together of elements' strings, against those that are encoded one by one."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.answers import Answers
from kpg.runtime.mfp.memo import values_of, word_of
from kpg.runtime.types import BIGINT, NULL, TEXT, array
from kpg.runtime.values.arrays import of


def test_arrays_are_those_that_are_encoded_one_by_one() -> None:
    dictionary = Dictionary()
    answers = Answers(BIGINT, 2, dictionary, dictionary)
    elements = np.array([7, -3, 40, 5, -(2**62), 9])
    groups = np.array([0, 1, 2, 0, 0, 1])
    words = answers.words(elements, groups, np.array([3, 0, 1, 2]))
    expected = [of([7, -3]), None, of([5]), of([-(2**62), 9])]
    assert words.tolist() == [
        NULL if value is None else word_of(value, array(BIGINT), dictionary) for value in expected
    ]
    assert values_of(words, array(BIGINT), dictionary) == expected


def test_texts_that_are_equally_frequent_go_by_their_letters() -> None:
    dictionary = Dictionary()
    codes = {text: dictionary.code(text) for text in ("tea", "jam", "", "a\x00b\x01", "zoo")}
    answers = Answers(TEXT, 0, dictionary, dictionary)
    elements = np.array([codes["zoo"], codes["tea"], codes["jam"], codes[""], codes["a\x00b\x01"]])
    words = answers.words(elements, np.array([0, 1, 1, 1, 1]), np.array([5]))
    assert values_of(words, array(TEXT), dictionary) == [of(["zoo", "", "a\x00b\x01", "jam", "tea"])]
    assert answers.bytes > 0
