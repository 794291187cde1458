"""Types, constants and functions of Postgres' manual, of which random expressions are written.

The templates are in ``wide_terms.txt``. What has several right answers, or fails for most arguments, is left
out.
"""

from pathlib import Path
from typing import Final

SQL_TYPES: Final = {
    "int": "integer",
    "big": "bigint",
    "num": "numeric",
    "dec": "numeric(10, 2)",
    "dbl": "double precision",
    "text": "text",
    "bool": "boolean",
    "date": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "span": "interval",
    "time": "time",
    "uuid": "uuid",
    "json": "jsonb",
    "ints": "integer[]",
    "texts": "text[]",
    "bytes": "bytea",
}
WEIGHTS: Final = (6, 2, 2, 3, 2, 6, 2, 3, 3, 1, 2, 1, 1, 2, 2, 2, 1)
"""How often each of them is chosen."""
LEAST: Final = ("int", "big", "num", "dec", "dbl", "text", "date", "ts", "tz", "span", "time", "ints")
"""What Postgres' min and max take."""
CHOICES: Final = {
    "small": ("0", "1", "2", "3", "4"),
    "word": ("'a'", "'b'", "'ab'", "','", "' '", "'x'"),
    "pattern": ("'a%'", "'%b'", "'_'", "'%'", "'a%b'", "'%€%'", "''", "'a\\%b'"),
    "regular": (
        *("'a'", "'^a.*'", "'[[:alpha:]]+'", "'b$'", "'(?:a|b)+'", "'\\d+'", "'[^a]'", "'.{2}'", "'\\mab?'"),
        *("','", "'(?i)B'", "'a*?b'", "'\\s'", "'^$'", "'[a-c]{1,2}'"),
    ),
    "field": ("year", "month", "day", "quarter", "dow", "doy", "week", "isoyear", "century", "decade"),
    "unit": ("year", "quarter", "month", "week", "day", "hour", "minute", "decade"),
}
"""What stands in a template for something else than an expression of a type."""


def _sections() -> dict[str, tuple[str, ...]]:
    text = (Path(__file__).parent / "wide_terms.txt").read_text()
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            lines = found.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return {name: tuple(lines) for name, lines in found.items()}


SECTIONS: Final = _sections()


def terms(kind: str, type_: str) -> tuple[str, ...]:
    """The templates of a kind (constant, function, aggregate, window) that give a type."""
    return SECTIONS.get(f"{kind} {type_}", ())


LITERALS: Final = {type_: terms("constant", type_) for type_ in SQL_TYPES}
