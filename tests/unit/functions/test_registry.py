"""Overload resolution, the types of results, and aggregates."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import (
    Accumulable,
    Basic,
    Hierarchical,
    aggregates,
    common_type,
    is_castable,
    resolve,
    resolve_aggregate,
)
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Type,
    decimal,
)

MONEY = decimal(15, 2)


@pytest.mark.parametrize(
    ("name", "types", "cast", "result"),
    [
        ("add", (INTEGER, INTEGER), (INTEGER, INTEGER), INTEGER),
        ("add", (SMALLINT, BIGINT), (BIGINT, BIGINT), BIGINT),
        ("sub", (INTEGER, MONEY), (decimal(16, 2), decimal(16, 2)), decimal(16, 2)),
        ("add", (decimal(5, 1), decimal(4, 3)), (decimal(8, 3), decimal(8, 3)), decimal(8, 3)),
        ("add", (MONEY, REAL), (DOUBLE, DOUBLE), DOUBLE),
        ("mul", (MONEY, decimal(16, 2)), (MONEY, decimal(16, 2)), decimal(18, 4)),
        ("mul", (INTEGER, MONEY), (decimal(10, 0), MONEY), decimal(18, 2)),
        ("div", (INTEGER, BIGINT), (BIGINT, BIGINT), BIGINT),
        ("div", (MONEY, INTEGER), (MONEY, INTEGER), NUMERIC),
        ("add", (DATE, INTEGER), (DATE, INTEGER), DATE),
        ("add", (DATE, INTERVAL_MONTH), (DATE, INTERVAL_MONTH), DATE),
        ("sub", (DATE, INTERVAL_DAY), (DATE, INTERVAL_DAY), TIMESTAMP),
        ("sub", (DATE, DATE), (DATE, DATE), INTEGER),
        ("sub", (TIMESTAMP, TIMESTAMP), (TIMESTAMP, TIMESTAMP), INTERVAL_DAY),
        ("mul", (INTERVAL_MONTH, INTEGER), (INTERVAL_MONTH, BIGINT), INTERVAL_MONTH),
        ("lt", (INTEGER, MONEY), (MONEY, MONEY), BOOLEAN),
        ("eq", (DATE, TIMESTAMP), (TIMESTAMP, TIMESTAMP), BOOLEAN),
        ("eq", (UNKNOWN, DATE), (DATE, DATE), BOOLEAN),
        ("eq", (Type(Kind.CHAR, 1), TEXT), (TEXT, TEXT), BOOLEAN),
        ("coalesce", (UNKNOWN, INTEGER, BIGINT), (BIGINT, BIGINT, BIGINT), BIGINT),
        ("and", (BOOLEAN, UNKNOWN, BOOLEAN), (BOOLEAN, BOOLEAN, BOOLEAN), BOOLEAN),
        ("substring", (Type(Kind.CHAR, 15), INTEGER, INTEGER), (TEXT, INTEGER, INTEGER), TEXT),
        ("extract_year", (DATE,), (DATE,), INTEGER),
        ("round", (MONEY, INTEGER), (NUMERIC, INTEGER), NUMERIC),
        ("floor", (MONEY,), (MONEY,), decimal(15, 0)),
    ],
)
def test_resolution(name: str, types: tuple[Type, ...], cast: tuple[Type, ...], result: Type) -> None:
    resolution = resolve(name, types)
    assert (resolution.function.name, resolution.arg_types, resolution.result_type) == (name, cast, result)


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("lenght", (TEXT,), "unknown function lenght\nhint: did you mean length"),
        ("abs", (TEXT,), "abs does not take .VARCHAR.\nhint: it takes a number"),
        ("add", (DATE, DATE), r"\+ does not take .DATE, DATE."),
        ("add", (TEXT, INTEGER), r"\+ does not take .VARCHAR, INTEGER."),
        ("eq", (DATE, INTEGER), "= does not take .DATE, INTEGER."),
        ("and", (INTEGER, BOOLEAN), "AND does not take .INTEGER, BOOLEAN."),
        ("upper", (), "upper does not take .."),
    ],
)
def test_refusals(name: str, types: tuple[Type, ...], message: str) -> None:
    with pytest.raises(ProgrammingError) as raised:
        resolve(name, types)
    assert re.search(message, str(raised.value))


def test_common_types() -> None:
    assert common_type((UNKNOWN, UNKNOWN)) == TEXT
    assert common_type((SMALLINT, MONEY, UNKNOWN)) == MONEY
    assert common_type((BIGINT, decimal(4, 2))) == decimal(18, 2)
    assert common_type((REAL, REAL)) == REAL
    assert common_type((REAL, INTEGER)) == DOUBLE
    assert common_type((TEXT, INTEGER)) is None


def test_casts_that_exist() -> None:
    assert is_castable(TEXT, DATE) and is_castable(MONEY, TEXT) and is_castable(UNKNOWN, DATE)
    assert is_castable(DATE, TIMESTAMP) and is_castable(BOOLEAN, INTEGER)
    assert (
        not is_castable(DATE, INTEGER) and not is_castable(BOOLEAN, DATE) and not is_castable(MONEY, BOOLEAN)
    )


@pytest.mark.parametrize(
    ("name", "types", "result"),
    [
        ("count", (), BIGINT),
        ("count", (TEXT,), BIGINT),
        ("sum", (SMALLINT,), BIGINT),
        ("sum", (BIGINT,), BIGINT),
        ("sum", (MONEY,), decimal(18, 2)),
        ("sum", (REAL,), DOUBLE),
        ("avg", (MONEY,), DOUBLE),
        ("min", (TEXT,), TEXT),
        ("max", (DATE,), DATE),
        ("bool_and", (BOOLEAN,), BOOLEAN),
        ("string_agg", (TEXT, UNKNOWN), TEXT),
    ],
)
def test_aggregate_types(name: str, types: tuple[Type, ...], result: Type) -> None:
    assert resolve_aggregate(name, types).result_type == result


def test_aggregate_refusals_and_kinds() -> None:
    with pytest.raises(ProgrammingError, match=r"sum does not take .VARCHAR."):
        resolve_aggregate("sum", (TEXT,))
    with pytest.raises(ProgrammingError, match="unknown aggregate summ"):
        resolve_aggregate("summ", (INTEGER,))
    kinds = {function.name: type(function.maintenance) for function in aggregates()}
    assert kinds["sum"] is Accumulable
    assert kinds["max"] is Hierarchical
    assert kinds["string_agg"] is Basic


def test_the_registry_does_not_import_numba() -> None:
    code = "import sys, kpg.runtime.functions, kpg.runtime.mfp; assert 'numba' not in sys.modules"
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
