"""A real Postgres beside kpg: scripts that both run, answers that have to be the same.

The server's programs come with the package ``pgserver``; it listens on a socket in a folder of its own.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_loads

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.runtime.types import Type
from kpg.runtime.values import codec_of

Row = tuple[Any, ...]
DEFINES: Final = re.compile(r"\s*(create|alter|drop|comment|set)\b", re.IGNORECASE)
ASKS: Final = re.compile(
    r"(/\* once \*/)?\s*(select|values|table|\(|with(?!.*\b(insert into|update|delete from|merge into)\s))",
    re.IGNORECASE | re.DOTALL,
)
ORDERS: Final = re.compile(r"order\s+by[^)]*$", re.IGNORECASE | re.DOTALL)
"""A query that ends in an ORDER BY outside parentheses: its order is compared too."""
SHOWN: Final = "-- shown"
"""The first line of a script whose values are compared as texts, to the last digit."""
ONCE: Final = "/* once */"
"""Before a query that is no view: one that fails, or that has another value at every time."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server with its data in the folder, for as long as the context lasts; its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgserver

        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@dataclass
class Beside:
    """An empty kpg database and an empty Postgres, taken through the same statements.

    ``refused`` collects what kpg refuses though Postgres answers, ``wrong`` answers that differ: a test
    asserts at its end that both are empty, and so shows all of them at once.
    """

    address: str
    db: Database = field(default_factory=kpg.connect)
    kept: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    shown: bool = False
    """Whether values are compared as texts."""

    def __post_init__(self) -> None:
        self.postgres = psycopg.connect(self.address, autocommit=True, prepare_threshold=None)
        set_json_loads(lambda text: text if isinstance(text, str) else text.decode(), self.postgres)
        for statement in ("drop schema public cascade", "create schema public", "set timezone to 'UTC'"):
            self._postgres(statement)

    def close(self) -> None:
        self.db.close()
        self.postgres.close()

    def run(self, statement: str) -> None:
        """Both run it: a change, which may return rows, or a definition."""
        failure, expected = None, list[Row]()
        try:
            expected = self._postgres(statement)
        except psycopg.Error as error:
            failure = str(error)
        try:
            found = self.db.sql(statement)
        except kpg.Error as error:
            if failure is None:
                self.refused.append(f"{statement}\n    kpg: {error}")
        else:
            if failure is not None:
                self.wrong.append(f"{statement}\n    is taken, Postgres: {failure}")
            elif expected:
                assert isinstance(found, Rows), statement
                self._compare(statement, self._rows(found), expected)

    def ask(self, query: str) -> None:
        """Both answer it, or both refuse it."""
        try:
            expected: list[Row] | str = self._postgres(query)
        except psycopg.Error as error:
            expected = str(error)
        try:
            found = self.db.sql(query)
        except kpg.Error as error:
            if not isinstance(expected, str):
                self.refused.append(f"{query}\n    kpg: {error}")
            return
        assert isinstance(found, Rows), query
        if isinstance(expected, str):
            self.wrong.append(f"{query}\n    is answered: {found.fetchall()}, Postgres: {expected}")
        else:
            self._compare(query, self._rows(found), expected)

    def keep(self, query: str) -> None:
        """From now on kpg keeps the query as a view, which :meth:`compare` compares."""
        try:
            width = len(self.postgres.execute(query.encode()).description or ())
        except psycopg.Error as error:
            self.wrong.append(f"not a test of views: {query}\n    Postgres: {error}")
            return
        name = f"kept_{len(self.kept)}"
        columns = ", ".join(f"c{position}" for position in range(width))
        try:
            self.db.sql(f"create materialized view {name} ({columns}) as {query}")
        except kpg.Error as error:
            self.refused.append(f"as a view: {query}\n    kpg: {error}")
        else:
            self.kept[name] = query

    def compare(self, when: str) -> None:
        """Every view that is kept is what Postgres answers now."""
        for name, query in self.kept.items():
            found = self.db.query(f"select * from {name}")
            self._compare(f"{query}\n  kept, after {when}", self._rows(found), self._postgres(query))

    def check(self) -> None:
        """Asserts that nothing was refused or wrong, and that Postgres took what was meant to be a test."""
        report = [
            "",
            *(f"WRONG    {text}" for text in self.wrong),
            *(f"REFUSED  {text}" for text in self.refused),
        ]
        assert len(report) == 1, "\n".join(report)

    def _compare(self, what: str, found: Sequence[Row], expected: Sequence[Row]) -> None:
        form = tuple if self.shown else plain
        left, right = [form(row) for row in found], [form(row) for row in expected]
        if ORDERS.search(what) and "kept" not in what:
            if left != right:
                self.wrong.append(f"{what}\n    kpg: {left}\n    Postgres: {right}")
        elif Counter(left) != Counter(right):
            many, few = Counter(left) - Counter(right), Counter(right) - Counter(left)
            self.wrong.append(f"{what}\n    only kpg: {dict(many)}\n    only Postgres: {dict(few)}")

    def _postgres(self, text: str) -> list[Row]:
        cursor = self.postgres.execute(text.encode())
        if cursor.description is None:
            return []
        result = cursor.pgresult
        if not self.shown or result is None:
            return cursor.fetchall()
        values = ([result.get_value(row, i) for i in range(result.nfields)] for row in range(result.ntuples))
        return [tuple(None if value is None else value.decode() for value in row) for row in values]

    def _rows(self, found: Rows) -> list[Row]:
        """The rows of an answer, as texts where these are compared."""
        if not self.shown:
            return found.fetchall()
        return [tuple(map(_text, found.types, row)) for row in found.fetchall()]


def statements(text: str) -> list[str]:
    """A script's statements: each ends with a semicolon at the end of a line; ``--`` lines are left out.

    Texts between ``$$``, or ``$tag$``, are whole.
    """
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    found, within = [""], ""
    for part in re.split(r"(\$[a-z_]*\$)", lines + "\n"):
        if re.fullmatch(r"\$[a-z_]*\$", part):
            within = "" if part == within else within or part
        elif not within:
            first, *others = re.split(r";\s*\n", part)
            found[-1] += first
            found += others
            continue
        found[-1] += part
    return [part.strip() for part in found if part.strip()]


def asked_once(beside: Beside, text: str) -> None:
    """Runs a script in its order, each query asked where it stands."""
    beside.shown = text.startswith(SHOWN)
    for statement in statements(text):
        (beside.ask if ASKS.match(statement) else beside.run)(statement)


def followed(beside: Beside, text: str) -> None:
    """All definitions of a script, then its queries as views, then its changes: compared after each.

    A query that begins with ``/* once */`` is left out.
    """
    beside.shown = text.startswith(SHOWN)
    parts = [part for part in statements(text) if not part.startswith(ONCE)]
    definitions = [part for part in parts if DEFINES.match(part)]
    queries = [part for part in parts if ASKS.match(part)]
    changes = [part for part in parts if part not in definitions and part not in queries]
    for part in definitions:
        beside.run(part)
    for query in queries:
        beside.keep(query)
    beside.compare("its definition")
    for change in changes:
        beside.run(change)
        # Views show what has been committed; Postgres is asked with the transaction's own changes.
        if beside.postgres.info.transaction_status == TransactionStatus.IDLE:
            beside.compare(change)


def _text(type_: Type, value: Any) -> str | None:
    """A value as kpg writes it, truth values as a protocol has them."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    codec = codec_of(type_)
    return str(codec.show(codec.from_python(value)))


def plain(row: Sequence[Any]) -> Row:
    """A row with numbers in one form, to twelve digits, and spans of time as text."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case list() | tuple():
            return tuple(map(_plain, value))
        case float() if math.isnan(value):
            return "NaN"
        case Decimal() if value.is_nan():
            return "NaN"
        case int() | float() | Decimal() if math.isfinite(value):
            return Decimal(f"{Decimal(value):.12g}").normalize() + 0
        case float() | Decimal():
            return str(float(value))
        case timedelta():
            return str(value)
        case _:
            return value
