"""``kpg inspect`` and ``kpg check``: list and verify the contents of a database folder."""

import sys
from pathlib import Path

import kpg
from kpg.persistence.inspection import check, inspect_files, repair
from kpg.persistence.recovery import open_folder
from kpg.runtime.errors import Error
from kpg.runtime.executor import Executor


def run_inspect(folder: Path) -> int:
    """Print the files, tables and views of a database. Returns 1 if there is none or it is damaged."""
    try:
        files = inspect_files(folder)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    width = max(len(one.name) for one in files)
    for file in files:
        print(f"{file.name:{width}}  {file.kind:10} {file.bytes:>14,}  {file.details}".rstrip())
    if any(one.kind == "damaged" for one in files):
        return 1
    try:
        with kpg.connect() as database:
            unopened = open_folder(database._engine, folder, read_only=True, whole=False)
            _print_contents(database._engine.executor, database)
            for name, reason in unopened.items():
                print(f"{name}: not opened here, as {reason}")
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
        print(f"{name:{width}}  {'table':18} {rows:>12,} rows {executor.tables.table_bytes(name):>14,} bytes")
    for name, kind, rows in views:
        row_count = "" if rows is None else f"{rows:>12,} rows"
        print(f"{name:{width}}  {kind:18} {row_count}".rstrip())


def run_check(folder: Path, *, imports: bool = False, repairs: bool = False) -> int:
    """Print what is wrong with a database, and what was not checked. Returns 1 if anything is wrong.

    ``repairs``: first truncate a damaged log.
    """
    if repairs:
        try:
            for line in repair(folder):
                print(line)
        except Error as error:
            print(error, file=sys.stderr)
            return 1
    error_count = 0
    unchecked: dict[str, str] = {}
    for line in check(folder, imports=imports, skipped=unchecked):
        error_count += 1
        print(line)
    for name, reason in unchecked.items():
        print(f"{name} was not checked: {reason} (--imports runs it)")
    summary = (
        f"{error_count} thing{'s are' if error_count > 1 else ' is'} wrong"
        if error_count
        else "all is as it should be"
    )
    print(f"{folder}: {summary}")
    return 1 if error_count else 0
