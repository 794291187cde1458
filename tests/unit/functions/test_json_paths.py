"""SQL/JSON paths: what is refused, as Postgres words it; what they give is compared with it elsewhere."""

import pytest

from kpg.runtime.functions.json_path import evaluate, path_exists, path_matches, query_items
from kpg.runtime.values.json_path import parse, show
from kpg.runtime.values.jsons import Json
from kpg.runtime.values.jsons import parse as document


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", 'invalid input syntax for type jsonpath: ""'),
        ("$.a +", "syntax error at end of jsonpath input"),
        ("$..a", 'syntax error at or near "." of jsonpath input'),
        ("$ ? (@.a)", 'syntax error at or near ")" of jsonpath input'),
        ("@", "@ is not allowed in root expressions"),
        ("$[last] + last", "LAST is allowed only in array subscripts"),
        ("$.a.datetime()", "the method .datetime() of jsonpath is not supported"),
        ('$ like_regex "a" flag "z"', 'unrecognized flag character "z" in LIKE_REGEX predicate'),
        ("$.a ~ 1", 'syntax error at or near "~" of jsonpath input'),
    ],
)
def test_a_text_that_is_no_path_is_refused(path: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(path)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("strict $.b", 'JSON object does not contain key "b"'),
        ("strict $.a.b", "jsonpath member accessor can only be applied to an object"),
        ("strict $[*]", "jsonpath wildcard array accessor can only be applied to an array"),
        ("strict $.a[7]", "jsonpath array subscript is out of bounds"),
        ("$.a + 1", "left operand of jsonpath operator + is not a single numeric value"),
        ("$.a[0] / 0", "division by zero"),
        ("$.t.abs()", "jsonpath item method .abs() can only be applied to a numeric value"),
        ("$.a[0] ? (@ == $x)", 'could not find jsonpath variable "x"'),
    ],
)
def test_what_a_document_does_not_permit_is_an_error_unless_it_is_silent(path: str, message: str) -> None:
    given = document('{"a": [1, 2], "t": "x"}')
    if "$x" in path:
        assert query_items(given, path) == []  # within a filter: unknown
        path = "$x"
    with pytest.raises(ValueError) as refused:
        query_items(given, path)
    assert str(refused.value) == message
    assert query_items(given, path, None, True) is None
    assert path_exists(given, path, None, True) is None


def test_conditions_are_true_false_or_unknown() -> None:
    given = document('{"a": [1, "x", null]}')
    for path, expected in (
        ("$.a[*] == 1", True),
        ("$.a[*] == 2", None),
        ("strict $.a[*] == 1", None),
        ("$.a[0] == 2", False),
        ("$.a[0] > 0 && $.a[1] > 0", None),
        ("$.a[0] > 5 && $.a[1] > 0", False),
        ("$.a[0] > 0 || $.a[1] > 0", True),
        ("!($.a[1] > 0)", None),
        ("($.a[1] > 0) is unknown", True),
    ):
        assert path_matches(given, path) is expected, path
    with pytest.raises(ValueError, match="single boolean result is expected"):
        path_matches(given, "$.a")
    assert not list(evaluate(parse("$.z"), given.value, {}))


def test_a_path_is_written_so_that_it_is_read_as_the_same() -> None:
    for text in ("$", 'strict $."a"[*]?(@ > 1)', '($."a" + 1 * 2)', '$."a".**{2 to last}."b".size()'):
        assert show(parse(text)) == text
        assert parse(show(parse(text))) == parse(text)
    assert path_matches(Json(None), '"a\\u0062" == "ab"')
