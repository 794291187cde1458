"""Random databases of all types, views over views and histories, beside a real Postgres, over and over.

``python -m tests.properties.postgres_histories --seed 1000 --minutes 60`` goes on for an hour, a seed at a
time, prints what differs, and leaves the statements that lead there in ``--folder``.
"""

import argparse
import math
import random
import re
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.types.json import set_json_loads

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from tests.model.lives import Lives
from tests.oracle.postgres import plain, serving
from tests.properties.wide_histories import History
from tests.properties.wide_queries import WideQueries

Row = tuple[Any, ...]
MOST_TEXT: Final = 1100
"""Longer queries take long to plan, and cannot be read when they fail."""


GAP: Final = re.compile("unknown function|does not take|not supported")
"""Errors of what kpg has not got."""
BEYOND: Final = re.compile("FULL JOIN is only supported|statement timeout")
"""Postgres' refusals of what kpg may answer."""
COUNTED: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
"""Statements that say how many rows they changed."""


class Differs(AssertionError):
    """An answer or a refusal that is not Postgres'."""


@dataclass
class Pair:
    """An empty kpg and an empty Postgres that run the same statements; ``script`` is what they ran."""

    address: str
    db: Database = field(default_factory=kpg.connect)
    lives: Lives | None = None
    """Where kpg's database is closed and opened again from time to time."""
    views: list[str] = field(default_factory=list)
    script: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.postgres = psycopg.connect(self.address, autocommit=True, prepare_threshold=None)
        set_json_loads(lambda text: text if isinstance(text, str) else text.decode(), self.postgres)
        self.within = False
        settings = ("drop schema if exists public cascade", "create schema public", "set timezone to 'UTC'")
        for statement in (
            *settings,
            "set statement_timeout to 8000",
            "set client_min_messages to error",
            "set jit to off",
        ):
            self.postgres.execute(statement)

    def close(self) -> None:
        self.db.close()
        self.postgres.close()

    def answer(self, text: str) -> list[Row] | None:
        """Postgres' rows; None if it refuses, and then its transaction goes on."""
        if self.within:
            self.postgres.execute("savepoint here")
        try:
            cursor = self.postgres.execute(text.encode())
            if cursor.description is not None:
                return cursor.fetchall()
            counted = (cursor.statusmessage or "").startswith(COUNTED)
            return [(cursor.rowcount,)] if counted else []
        except psycopg.Error as error:
            self.refusal = str(error).strip()
            if BEYOND.search(self.refusal):
                raise Undecided from None
            if self.within:
                self.postgres.execute("rollback to here")
            return None

    def ask(self, query: str) -> None:
        """Both answer a query, or both refuse it."""
        self.counts["queries"] += 1
        expected = self.answer(query)
        if self.within:
            self.db.sql("savepoint here")
        try:
            found: list[Row] | str = self._rows(query)
        except kpg.Error as error:
            if self.within:
                self.db.sql("rollback to here")
            if self._gap(error):
                return
            found = str(error)
        if isinstance(found, str) and expected is None:
            return
        if isinstance(found, str) or expected is None:
            raise Differs(
                f"{query}\n  kpg: {found}\n  Postgres: {self.refusal if expected is None else expected}"
            )
        compare(query, found, expected)

    def keep(self, name: str, query: str, expanded: bool) -> bool:
        """The query as a view of both; False if Postgres or kpg does not take it as one."""
        if self.answer(query) is None or self.answer(f"create view {name} as {query}") is None:
            return False
        try:
            self._rows(f"create {'' if expanded else 'materialized '}view {name} as {query}")
        except kpg.Error as error:
            self.answer(f"drop view {name}")
            if self._gap(error):
                return False
            raise Differs(f"create view {name} as {query}\n  kpg: {error}") from None
        self.script.append(f"create {'' if expanded else 'materialized '}view {name} as {query}")
        self.views.append(name)
        return True

    def compare(self) -> None:
        """Every view is what Postgres answers."""
        for name in self.views:
            self.counts["views"] += 1
            expected = self.answer(f"select * from {name}")
            if expected is None:
                raise Differs(f"select * from {name}\n  Postgres: {self.refusal}")
            compare(name, self._rows(f"select * from {name}"), expected)

    def run(self, statement: str) -> bool:
        """Both change, or both refuse to; a change by which a view of Postgres' fails is left out."""
        self.counts["statements"] += 1
        outside = not self.within
        if outside:
            self.postgres.execute("begin")
            self.within = True
        expected = self.answer(statement)
        # Postgres checks a deferred key, and fails to compute a view, later than kpg refuses.
        if expected is not None and not (self._checked() and self._computable()):
            if not outside:
                raise Undecided
            self.postgres.execute("rollback")
            self.within = False
            return False
        if outside:
            self.postgres.execute("commit" if expected is not None else "rollback")
            self.within = False
        self.script.append(statement)
        self._same(statement, expected)
        return expected is not None

    def control(self, statement: str) -> None:
        """BEGIN, COMMIT, ROLLBACK, SAVEPOINT and so on, which both take."""
        self.script.append(statement)
        self.postgres.execute(statement.encode())
        self.within = statement not in ("commit", "rollback")
        self.db.sql(statement)

    def _checked(self) -> bool:
        fits = self.answer("set constraints all immediate") is not None
        return fits and self.answer("set constraints all deferred") is not None

    def _computable(self) -> bool:
        return all(self.answer(f"select * from {name}") is not None for name in self.views)

    def _same(self, statement: str, expected: list[Row] | None) -> None:
        guarded = self.within
        if guarded:
            self.db.sql("savepoint here")
        try:
            found = self._rows(statement)
        except kpg.Error as error:
            if expected is not None:
                if self._gap(error):
                    raise Undecided from None
                raise Differs(f"{statement}\n  kpg: {error}") from None
            if guarded:
                self.db.sql("rollback to here")
            return
        if expected is None:
            raise Differs(f"{statement}\n  is taken, Postgres: {self.refusal}")
        if not statement.startswith("truncate"):
            compare(statement, found, expected)

    def _gap(self, error: kpg.Error) -> bool:
        """Whether kpg has not got what the statement needs, which is counted."""
        first = str(error).splitlines()[0]
        refused = isinstance(error, kpg.errors.NotSupportedError) or GAP.search(first)
        if refused:
            self.counts[f"refused: {first[:80]}"] += 1
        return bool(refused)

    def _rows(self, text: str) -> list[Row]:
        try:
            found = self.db.sql(text)
            return found.fetchall() if isinstance(found, Rows) else []
        except kpg.InternalError as error:
            raise Differs(f"{text}\n  kpg: {error}") from error
        except kpg.Error:
            raise
        except Exception as error:
            raise Differs(f"{text}\n  {type(error).__name__}: {error}") from error


class Undecided(Exception):
    """From here on the two cannot be the same for a reason that is none of kpg's."""


def compare(what: str, found: Sequence[Row], expected: Sequence[Row]) -> None:
    """Raise if two multisets of rows differ, numbers in more than their last digits."""
    left, right = Counter(map(_rounded, found)), Counter(map(_rounded, expected))
    if left != right:
        raise Differs(f"{what}\n  only kpg: {dict(left - right)}\n  only Postgres: {dict(right - left)}")


def _rounded(row: Row) -> Row:
    return tuple(_digits(value) for value in row)


def _digits(value: Any) -> Any:
    if hasattr(value, "months"):  # psycopg takes a year for 365 days
        years, months = divmod(abs(value.months), 12)
        days = (years * 365 + months * 30) * (-1 if value.months < 0 else 1) + value.days
        return str(timedelta(days=days, microseconds=value.nanoseconds // 1000))
    if isinstance(value, list):
        return tuple(map(_digits, value))
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return plain((value,))[0]
    if not math.isfinite(value):
        return str(float(value))
    return float(f"{float(value):.9g}") if abs(value) > 1e-12 else 0.0


class Life:
    """A random history of a pair."""

    def __init__(self, seed: int, pair: Pair) -> None:
        self.pick = random.Random(seed)
        self.pair = pair
        self.queries = WideQueries(self.pick, {})
        self.history = History(self.pick, self.queries)

    def live(self, views: int, steps: int) -> None:
        for number in range(3):
            self.pair.run(self.history.create(f"t{number}"))
        for table in self.history.tables.values():
            if self.pick.random() < 0.9:
                self._run(self.history.insert(table, self.pick.choice((1, 3, 6))))
        for _ in range(views):
            self._install()
        for number in range(steps):
            self._step()
            self.pair.compare()
            for _ in range(2):
                self.pair.ask(self._text(self.pick.choice((1, 2))))
            if number % 3 == 1:
                self._install()
        for name in self.pair.views:
            if f"create materialized view {name} as" in "\n".join(self.pair.script):
                self.pair.db.verify(name)

    def _text(self, depth: int) -> str:
        while True:
            found = self.queries.query(depth).text
            if len(found) <= MOST_TEXT:
                return found

    def _install(self) -> None:
        name = f"v{len(self.pair.views)}"
        for _ in range(5):
            query = self.queries.query(self.pick.choice((1, 1, 2)))
            if len(query.text) <= MOST_TEXT and self.pair.keep(name, query.text, self.pick.random() < 0.2):
                if self.pick.random() < 0.3:
                    self.queries.relations[name] = query.columns
                return

    def _run(self, statement: str) -> None:
        """Run it; a table whose statement failed keeps the columns that it had."""
        if len(statement) <= 2 * MOST_TEXT and self.pair.run(statement):
            self._columns(self._known())
        else:
            self._columns({name: list(self.queries.relations[name]) for name in self.history.tables})

    def _columns(self, known: dict[str, list[tuple[str, str]]]) -> None:
        for name, columns in known.items():
            self.history.tables[name].columns = columns
            self.queries.relations[name] = tuple(columns)

    def _step(self) -> None:
        pick, pair = self.pick, self.pair
        if pair.lives is not None:
            pair.db = pair.lives.perhaps()
        if pick.random() < 0.5:
            self._run(self.history.statement())
            return
        pair.control("begin")
        start = self._known()
        saved: list[dict[str, list[tuple[str, str]]]] = []
        for _ in range(pick.randint(1, 4)):
            if pick.random() < 0.3:
                pair.control(f"savepoint s{len(saved)}")
                saved.append(self._known())
            self._run(self.history.statement())
            if pick.random() < 0.4:
                pair.ask(self._text(1))
            if saved and pick.random() < 0.3:
                pair.control(f"rollback to s{len(saved) - 1}")
                self._columns(saved.pop())
        if pick.random() < 0.2:
            pair.control("rollback")
            self._columns(start)
        else:
            pair.control("commit")

    def _known(self) -> dict[str, list[tuple[str, str]]]:
        return {name: list(table.columns) for name, table in self.history.tables.items()}


def live(address: str, seed: int, views: int = 4, steps: int = 8, *, in_folder: bool = False) -> Counter[str]:
    """One history, compared after every step; what was compared is counted.

    If it is ``in_folder``, kpg's database is closed, killed, and opened again between steps.
    """
    lives = Lives(seed) if in_folder else None
    pair = Pair(address) if lives is None else Pair(address, lives.db, lives)
    try:
        Life(seed, pair).live(views, steps)
    except Undecided:
        pair.counts["undecided"] += 1
    except Exception as error:
        error.add_note("\n".join(["", *(f"{line};" for line in pair.script)]))
        raise
    finally:
        pair.close()
    pair.counts["lives"] += 0 if lives is None else lives.ended
    return pair.counts


def main() -> None:
    """Random histories until the time is over."""
    from tests.properties.postgres_twin import in_order_of_bytes

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--in-folder", action="store_true")
    options = parser.parse_args()
    seed, end, counts = options.seed, time.monotonic() + options.minutes * 60, Counter[str]()
    with serving(Path(tempfile.mkdtemp())) as server:
        address = in_order_of_bytes(server)
        while time.monotonic() < end:
            try:
                counts += live(address, seed, in_folder=options.in_folder)
            except Exception as error:
                counts["failed"] += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
                if not isinstance(error, Differs):
                    print(traceback.format_exc(limit=-3)[:1500], flush=True)
                (options.folder / f"seed_{seed}.sql").write_text("\n".join(error.__notes__))
            seed += 1
    print(
        f"seeds {options.seed} to {seed - 1}", *(f"{n} {what}" for what, n in counts.most_common()), sep="\n"
    )


if __name__ == "__main__":
    main()
