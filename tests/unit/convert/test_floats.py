"""Doubles and their words, whole arrays at a time."""

import numpy as np

from kpg.runtime.convert.python_values import float_words, word_floats
from kpg.runtime.types import float_to_word, word_to_float

DOUBLES = [-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.0, 1.7976931348623157e308, np.inf, np.nan]


def test_words_are_those_of_single_doubles_and_keep_their_order() -> None:
    words = float_words(np.array(DOUBLES))
    assert words.tolist() == [float_to_word(value) for value in DOUBLES]
    assert words.tolist() == sorted(words.tolist())


def test_doubles_come_back() -> None:
    words = float_words(np.array(DOUBLES))
    assert list(map(str, word_floats(words))) == [str(word_to_float(word)) for word in words.tolist()]
    assert str(word_floats(words)[3]) == "0.0"
