"""Random histories of roles, privileges, owners, definers and policies, beside a real Postgres.

One after the other random roles grant, revoke, define, read and write; every statement has to give the same
rows, or an error with the same SQLSTATE, and lists of privileges have to be the same texts.

``python -m tests.properties.postgres_roles --seed 1000 --minutes 20`` goes on for as long, a seed at a time,
and prints what differs; ``--trace`` prints the statements of the first seed.
"""

import argparse
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg

import kpg
from kpg.listeners.states import state_of
from kpg.result import Affected, Rows
from tests.oracle.postgres import serving
from tests.properties.role_statements import LISTS, TABLES, Statements

Answer = list[tuple[Any, ...]] | str


def _named(value: Any) -> Any:
    return value.replace("postgres", "kpg") if isinstance(value, str) else value


class Postgres:
    """A database of a real Postgres: a history is a transaction of it, of which nothing remains."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True, prepare_threshold=None)

    def clear(self) -> None:
        """Undo all that a history has done, and begin another one."""
        self._connection.execute("rollback")
        self._connection.execute("begin")

    def answer(self, statement: str) -> Answer:
        """The rows, or the SQLSTATE."""
        try:
            self._connection.execute("savepoint here")
            cursor = self._connection.execute(statement.encode())
        except psycopg.Error as error:
            self._connection.execute("rollback to here")
            return f"{error.sqlstate} {_named(error.diag.message_primary)}"
        return [tuple(map(_named, row)) for row in cursor] if cursor.description else []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def answer_of_kpg(db: kpg.Database, statement: str) -> Answer:
    """The rows, or the SQLSTATE."""
    try:
        found = db.sql(statement)
    except kpg.Error as error:
        return f"{state_of(error)} {error.message}"
    asked = isinstance(found, Rows) and not isinstance(found, Affected)
    return found.fetchall() if asked and not statement.startswith("create") else []


def _same(expected: Answer, found: Answer) -> bool:
    """Whether both give the same rows, or refuse for the same reason."""
    if isinstance(expected, str) and isinstance(found, str):
        states = {expected[:5], found[:5]}
        return len(states) == 1 or bool(states & EARLIER)
    if isinstance(expected, str) or isinstance(found, str):
        return False
    return sorted(map(repr, expected)) == sorted(map(repr, found))


EARLIER: Final = {"42809", "42P10", "42703", "42704", "42P01", "42710"}
"""Both refuse: what one of them tells before it asks for privileges, and the other after it."""


def live(seed: int, postgres: Postgres, steps: int, tell: Callable[[str], object] | None = None) -> int:
    """A history; AssertionError with what differs first. How many statements have done something."""
    some = Statements(seed)
    postgres.clear()
    done = 0
    with kpg.connect() as db:
        checks = ["reset session authorization", *LISTS, *(f"select * from {one}" for one in TABLES)]
        for statement in [*some.setup(), *(some.next() for _ in range(steps)), *checks]:
            expected, found = postgres.answer(statement), answer_of_kpg(db, statement)
            if tell is not None:
                tell(f"{statement}\n    {expected}")
            said = f"{statement}\n  Postgres: {expected}\n  kpg: {found}"
            assert _same(expected, found), said
            done += not isinstance(expected, str)
    return done


def main() -> None:
    """Random histories until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    seed, end, told = options.seed, time.monotonic() + options.minutes * 60, Counter[str]()
    done = 0
    with serving(Path(tempfile.mkdtemp())) as address:
        postgres = Postgres(address)
        while time.monotonic() < end:
            try:
                done += live(seed, postgres, options.steps, print if options.trace and not told else None)
            except Exception as error:
                told["failed"] += 1
                text = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=-3)
                print(f"seed {seed}\n{text}", flush=True)
            told["lived"] += 1
            seed += 1
        with suppress(psycopg.Error):
            postgres.close()
    print(f"seeds {options.seed} to {seed - 1}: {dict(told)}, {done} statements succeeded")


if __name__ == "__main__":
    main()
