"""Regular expressions of ECMAScript: what Python means otherwise, and what only one of them knows."""

import pytest

from kpg.runtime.functions.regex import compile_ecmascript


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("[[:digit:]]+", "0123", True),
        ("[[:digit:]]+", "01a", False),
        ("[[:alpha:]_][[:alnum:]_]*", "_a1", True),
        ("[^[:space:]]+", "a b", False),
        ("[[:upper:][:lower:]]+", "aB", True),
        ("[[:punct:]]+", "!-/]`~", True),
        ("[[.a.]b]+", "ab", True),
        ("[[=a=]]", "a", True),
        ("[[]", "[", True),
        ("[a&&b]+", "a&b", True),
        (r"[\]x]", "]", True),
        (r"\d+", "١", False),
        (r"\w+", "é", False),
        ("a.c", "a\rc", False),
        ("a.c", "abc", True),
        ("a$", "a\n", False),
        (r"\cJ", "\n", True),
        (r"\x41B", "AB", True),
        ("(?:a|b)(?=c)c", "bc", True),
        ("(?!b).", "a", True),
        ("(a|ab)(c|bcd)(d*)", "abcd", True),
        (r"a\.b\*", "a.b*", True),
        ("", "", True),
        ("a{2}b{1,}", "aabb", True),
        ("a}", "a}", True),
        (r"\Aa\Z", "AaZ", True),
        (r"\Aa\Z", "a", False),
        (r"[\a\y]+", "ay", True),
        ("[]a]", "a", False),
        ("[^]a", "]a", True),
    ],
)
def test_matches(pattern: str, text: str, matches: bool) -> None:
    assert (compile_ecmascript(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "[a",
        "[[:nothing:]]",
        "(",
        "a++",
        "(?i)a",
        "(?P<n>a)",
        "(?<=a)b",
        "*a",
        "a{2}+",
        "fo{x}b",
        "{",
        "a{,2}",
        "a{2",
        "a{99999999999}",
    ],
)
def test_what_is_no_expression(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_ecmascript(pattern)
