"""Names of columns that are given none."""

import pytest

import kpg

NAMES = {
    "1::int": "int4",
    "CAST('1' AS numeric(5, 2))": "numeric",
    "a::text": "a",
    "(a + 1)::text": "text",
    "'{1}'::int[]": "int4",
    "date '2020-01-01'": "date",
    "interval '1 day'": "interval",
    "interval '1 day'::text": "text",
    "1::int2::int8": "int8",
    "1::float(10)": "float4",
    "now() at time zone 'UTC'": "timezone",
    "div(7.0, 2)": "div",
    "var_pop(a)": "var_pop",
    "CASE WHEN true THEN 1 END": "case",
    "CASE WHEN true THEN 1 END::text": "text",
    "(ARRAY[1, 2])[1]": "array",
    'a COLLATE "C"': "a",
    "1 + 1": "?column?",
}


@pytest.mark.parametrize(("expression", "name"), NAMES.items())
def test_default_names_are_those_of_postgres(expression: str, name: str) -> None:
    type_ = "text" if "COLLATE" in expression else "int"
    found = kpg.connect().sql(f"SELECT {expression} FROM (SELECT NULL::{type_}) t(a)")
    assert [column[0] for column in found.description] == [name]
