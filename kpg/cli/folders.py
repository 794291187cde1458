"""``kpg inspect`` and ``kpg check``: list and verify the contents of a database folder."""

import sys
from pathlib import Path

import kpg
from kpg.persistence.inspection import check, inspected, repair
from kpg.persistence.recovery import open_folder
from kpg.runtime.errors import Error
from kpg.runtime.executor import Executor


def run_inspect(folder: Path) -> int:
    """Print the files of a database, and its tables and views; 1 if there is none, or it is damaged."""
    try:
        files = inspected(folder)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    width = max(len(one.name) for one in files)
    for one in files:
        print(f"{one.name:{width}}  {one.kind:10} {one.bytes:>14,}  {one.details}".rstrip())
    if any(one.kind == "damaged" for one in files):
        return 1
    try:
        with kpg.connect() as database:
            left = open_folder(database._engine, folder, read_only=True, whole=False)
            _print_contents(database._engine.executor, database)
            for name, why in left.items():
                print(f"{name}: not opened here, as {why}")
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _print_contents(executor: Executor, database: "kpg.Database") -> None:
    print(f"\nepoch {database.epoch}")
    tables = database.tables().fetchall()
    views = database.views().fetchall()
    width = max((len(row[0]) for row in (*tables, *views)), default=0)
    for name, rows in tables:
        print(f"{name:{width}}  {'table':18} {rows:>12,} rows {executor.table_bytes(name):>14,} bytes")
    for name, kind, rows in views:
        counted = "" if rows is None else f"{rows:>12,} rows"
        print(f"{name:{width}}  {kind:18} {counted}".rstrip())


def run_check(folder: Path, *, imports: bool = False, repairs: bool = False) -> int:
    """Print what is wrong with a database, and what was not looked at; 1 if anything is wrong.

    With ``repairs`` a damaged log is cut off first.
    """
    if repairs:
        try:
            for line in repair(folder):
                print(line)
        except Error as error:
            print(error, file=sys.stderr)
            return 1
    wrong = 0
    left: dict[str, str] = {}
    for line in check(folder, imports=imports, left=left):
        wrong += 1
        print(line)
    for name, why in left.items():
        print(f"{name} was not checked: {why} (--imports runs it)")
    found = f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong" if wrong else "all is as it should be"
    print(f"{folder}: {found}")
    return 1 if wrong else 0
