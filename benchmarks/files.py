"""How many source files a statement goes through: `python benchmarks/files.py`.

A file counts if a function of it is called: for changes, until the step begins (``Worker.step``); for the
other statements, until the result is there. Each runs three times, so that the last run finds warm caches.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import kpg

ROOT: Final = str(Path(kpg.__file__).parents[1].resolve())
FOLDERS: Final = tuple(f"{ROOT}/{name}/" for name in ("compiler", "kpg", "runtime"))
TABLES: Final = (
    "create table t (k int primary key, g int, v int); create table u (k int primary key, name text)"
)
STATEMENTS: Final[dict[str, Callable[[int], str]]] = {
    "INSERT of a known shape": lambda n: f"insert into t values ({n}, {n % 3}, {n})",
    "UPDATE by key": lambda n: f"update t set v = v + 1 where k = {n}",
    "SELECT by key": lambda n: f"select v from t where k = {n}",
    "CREATE MATERIALIZED VIEW": lambda n: (
        f"create materialized view v{n} as "
        "select g, name, sum(v) from t join u on t.k = u.k group by g, name having sum(v) > 1"
    ),
}


def files_of(run: Callable[[], object]) -> set[str]:
    """The files of the product whose functions a call runs, until a step begins."""
    found: set[str] = set()
    stepping = False

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal stepping
        code = frame.f_code
        if event != "call" or stepping:
            return
        path = str(Path(code.co_filename).resolve())
        if path.startswith(FOLDERS) and "<" not in path:
            found.add(path.removeprefix(f"{ROOT}/"))
            stepping = path.endswith("runtime/worker/worker.py") and code.co_name == "step"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Print the number of files by statement, and with ``-v`` the files."""
    db = kpg.connect()
    db.sql(TABLES)
    db.sql("create materialized view s as select g, sum(v) from t group by g")
    for name, text in STATEMENTS.items():
        found: set[str] = set()
        for n in range(3):
            found = files_of(partial(db.sql, text(n + 1)))
        print(f"{name:26} {len(found):4} files")
        if "-v" in sys.argv:
            print(*(f"    {one}" for one in sorted(found)), sep="\n")


if __name__ == "__main__":
    main()
