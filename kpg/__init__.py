"""kpg: SQL views and Datalog programs kept up to date over one set of shared, multiversioned indexes.

The code is in the top-level folders ``compiler/``, ``runtime/``, ``grammars/`` and ``tpch/``. This
package joins them under one import name through relative symlinks.
"""

from pathlib import Path as _Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_root = _Path(__file__).resolve().parents[1]
if (_root / "pyproject.toml").is_file() and not (_root / "kpg" / "compiler").is_dir():
    __path__.append(str(_root))  # a checkout made without symlinks

from kpg.runtime import errors, types  # noqa: E402
from kpg.runtime.errors import (  # noqa: E402
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    check_argument,
)
from kpg.runtime.gc_pause import import_at_rest  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from collections.abc import Mapping as _Mapping
    from datetime import timedelta as _timedelta
    from typing import Any as _Any

    from kpg import graph
    from kpg.api.database import Branch, Database
    from kpg.api.diagram import Drawing
    from kpg.api.progress import show_progress
    from kpg.api.result import Result
    from kpg.api.view import View
    from kpg.collections import (
        Arranged,
        Batch,
        Captured,
        Collection,
        Dataflow,
        Expression,
        Input,
        Inspection,
        LoopScope,
        Operator,
        Probe,
        Variable,
        case,
        conjunction,
        function,
        literal,
        recursive,
    )
    from kpg.datalog import Absence, Answers, Goal, Program, Proof
    from kpg.session.subscriptions import Subscription

__all__ = [
    "Absence",
    "Answers",
    "Arranged",
    "Batch",
    "Branch",
    "Captured",
    "Collection",
    "DataError",
    "Database",
    "DatabaseError",
    "Dataflow",
    "Drawing",
    "Error",
    "Expression",
    "Goal",
    "Input",
    "Inspection",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "LoopScope",
    "NotSupportedError",
    "OperationalError",
    "Operator",
    "Probe",
    "Program",
    "ProgrammingError",
    "Proof",
    "Result",
    "Subscription",
    "Variable",
    "View",
    "case",
    "conjunction",
    "connect",
    "errors",
    "function",
    "graph",
    "literal",
    "recursive",
    "show_progress",
    "types",
]

_LAZY = {
    "Absence": "datalog",
    "Answers": "datalog",
    "Arranged": "collections",
    "Batch": "collections",
    "Branch": "api.database",
    "Captured": "collections",
    "Collection": "collections",
    "Database": "api.database",
    "Dataflow": "collections",
    "Drawing": "api.diagram",
    "Expression": "collections",
    "Goal": "datalog",
    "Input": "collections",
    "Inspection": "collections",
    "LoopScope": "collections",
    "Operator": "collections",
    "Probe": "collections",
    "Program": "datalog",
    "Proof": "datalog",
    "Result": "api.result",
    "Subscription": "session.subscriptions",
    "Variable": "collections",
    "View": "api.view",
    "case": "collections",
    "conjunction": "collections",
    "function": "collections",
    "literal": "collections",
    "recursive": "collections",
    "show_progress": "api.progress",
}


def connect(
    folder: "str | _Path | None" = None,
    *,
    synchronous: str = "full",
    read_only: bool = False,
    functions: "_Mapping[str, _Callable[..., object]] | None" = None,
    merge_effort: str = "default",
    memory_limit: int | str | None = None,
    history: "int | str | _timedelta | None" = None,
    workers: int = 1,
    spark: "_Any | None" = None,
) -> "Database":
    """Open a database: a new one in memory or, with a ``folder``, a durable one.

    Args:
      folder: the folder of a durable database. It is created if it does not exist.
      synchronous: when a commit is on disk. ``"full"``: when the commit returns. ``"normal"``: within
        about a second, so that a power failure may lose the last commits. ``"off"``: when the
        operating system decides. In every mode, a killed process loses no commit, and the database
        reopens as of some commit.
      read_only: open the folder for reading, also beside a process that writes to it.
      functions: Python functions that views call, by name. By default they are imported from their modules.
      merge_effort: how eagerly indexes are merged. ``"eager"`` merges at once, for the fastest reads
        of data that seldom changes. ``"lazy"`` merges in the smallest steps, for the shortest commits.
        ``"default"`` keeps up with any load. Results are the same.
      memory_limit: maximum memory of the process and its workers, in bytes or as ``"2 GB"``. A query
        or a change that exceeds it raises OperationalError and changes nothing.
      history: how long past states are kept, as a time (``"1 hour"``) or a number of epochs. Required
        by ``SELECT ... AS OF``, ``View.as_of`` and ``View.changes(since=...)``.
      workers: number of processes on this machine that share the work; see
        docs/explanation/workers.md.
      spark: a SparkSession whose executors run the workers as tasks.
    """
    folder_options = {"synchronous": synchronous, "read_only": read_only, "functions": functions}
    _check("folder", folder, (str, _Path), "a path")
    _check("memory_limit", memory_limit, (str, int), 'bytes or a size such as "2 GB"')
    _check("merge_effort", merge_effort, (str,), "a text")
    _check("synchronous", synchronous, (str,), "a text")
    _check("read_only", read_only, (bool,), "True or False")
    check_argument("workers", workers, int, "a number")
    if functions is not None and not (hasattr(functions, "items") and all(map(callable, functions.values()))):
        raise InterfaceError("functions must be a mapping from names to functions", hint="pass a dict")
    if workers != 1 or spark is not None:
        options = {"folder": folder, "memory_limit": memory_limit, "history": history}
        return import_at_rest("kpg.api.connect").connect_with_workers(
            workers, spark, merge_effort, options, folder_options
        )
    database_class = import_at_rest("kpg.api.database").Database
    if folder is None:
        if read_only:
            errors = import_at_rest("kpg.runtime.errors")
            raise errors.InterfaceError(
                "read_only is for a database in a folder", hint="pass the folder, too"
            )
        database: Database = database_class(merge_effort, memory_limit, history)
        return database
    database = database_class(merge_effort, memory_limit, history, folder=folder, **folder_options)
    return database


def _check(name: str, value: object, kinds: tuple[type, ...], description: str) -> None:
    """Raise InterfaceError for an argument of a wrong type. None is allowed."""
    if value is not None:
        check_argument(name, value, bool if bool in kinds else kinds, description)


def __getattr__(name: str) -> object:
    """Import a name of the public API on first use, so that ``import kpg`` stays fast."""
    if name == "graph":
        return import_at_rest("kpg.graph")
    if name not in _LAZY:
        raise AttributeError(f"module 'kpg' has no attribute {name!r}")
    return getattr(import_at_rest(f"kpg.{_LAZY[name]}"), name)
