"""Places of rows as texts and words."""

import pytest

from kpg.runtime.values import words


@pytest.mark.parametrize(
    ("text", "word"),
    [("(0,0)", 0), ("(0,1)", 1), ("(1,0)", 65536), ("(2,3)", 131075), ("(4294967295,65535)", words.MAX_TID)],
)
def test_both_ways(text: str, word: int) -> None:
    assert words.parse_tid(text) == word
    assert words.show_tid(word) == text


def test_what_is_around_the_parentheses_does_not_count() -> None:
    assert words.parse_tid("'(3,4)' and more") == 3 * 65536 + 4
    assert words.parse_tid(" ( 3, 4)") == 3 * 65536 + 4


@pytest.mark.parametrize(
    "text", ["", "1", "(1)", "(1,)", "(1 ,2)", "(1,2 )", "(4294967296,0)", "(0,65536)", "(a,1)"]
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="no place of a row"):
        words.parse_tid(text)
