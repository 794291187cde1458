"""What is said of texts that mean no value of a type."""

import pytest

from kpg.runtime.types import (
    BOOLEAN,
    BYTEA,
    CIDR,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    SMALLINT,
    TIMESTAMPTZ,
    Kind,
    Type,
    array,
    decimal,
    range_of,
)
from kpg.runtime.values.input_errors import input_error

RAINBOW = Type(Kind.ENUM, labels=("red", "green"), name="rainbow")


@pytest.mark.parametrize(
    ("text", "type_", "message", "state"),
    [
        ("x", INTEGER, 'invalid input syntax for type integer: "x"', "22P02"),
        ("99999", SMALLINT, 'value "99999" is out of range for type smallint', "22003"),
        ("1e400", DOUBLE, '"1e400" is out of range for type double precision', "22003"),
        ("100", decimal(3, 1), "numeric field overflow", "22003"),
        ("maybe", BOOLEAN, 'invalid input syntax for type boolean: "maybe"', "22P02"),
        ("2020-02-30", DATE, 'date/time field value out of range: "2020-02-30"', "22008"),
        ("someday", DATE, 'invalid input syntax for type date: "someday"', "22007"),
        ("2020-01-01 00:00 No/Where", TIMESTAMPTZ, 'time zone "no/where" not recognized', "22023"),
        ("999999999999 years", INTERVAL, 'interval field value out of range: "999999999999 years"', "22015"),
        ("{", JSON, "invalid input syntax for type json", "22P02"),
        ("\\xzz", BYTEA, 'invalid hexadecimal digit: "z"', "22023"),
        ("102", Type(Kind.BIT, 3), '"2" is not a valid binary digit', "22P02"),
        ("10.0.0.1/24", CIDR, 'invalid cidr value: "10.0.0.1/24"', "22P02"),
        ("pink", RAINBOW, 'invalid input value for enum rainbow: "pink"', "22P02"),
        ("{1,x}", array(INTEGER), 'invalid input syntax for type integer: "x"', "22P02"),
        ("{1,2", array(INTEGER), 'malformed array literal: "{1,2"', "22P02"),
        (
            "[2,1]",
            range_of(INTEGER),
            "range lower bound must be less than or equal to range upper bound",
            "22000",
        ),
    ],
)
def test_complaints_have_postgres_words(text: str, type_: Type, message: str, state: str) -> None:
    found = input_error(text, type_)
    assert (found.message, found.sqlstate) == (message, state)
