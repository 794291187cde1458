"""kpg: SQL views and Datalog programs kept up to date over one set of shared, multiversioned indexes.

The code lives in the top-level folders ``compiler/``, ``runtime/``, ``grammars/`` and ``tpch/``; this
package joins them under one import name through relative symlinks.
"""

from pathlib import Path as _Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_root = _Path(__file__).resolve().parents[1]
if (_root / "pyproject.toml").is_file() and not (_root / "kpg" / "compiler").is_dir():
    __path__.append(str(_root))  # a checkout made without symlinks

from kpg.gc_pause import import_at_rest  # noqa: E402
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
    """A new, empty database in memory; with a ``folder``, the durable database that is in it.

    ``synchronous`` says when what is committed is on the disk: ``"full"``, when the commit returns;
    ``"normal"``, within about a second, so that a power cut may take the last commits; ``"off"``, when the
    operating system likes. In every mode the end of the process takes nothing, and what comes back is as it
    was after some commit. ``read_only`` opens it beside another process. ``functions`` are what views
    call, by name; without, functions are imported from the modules that they were in.

    ``merge_effort`` is how its indexes are kept in few pieces: ``"eager"`` merges pieces as soon as they are
    there, for the fastest reading of data that seldom changes; ``"lazy"`` in the smallest steps, for the
    shortest commits; ``"default"`` in steps that keep up with any load. What is read is the same.

    ``memory_limit``, in bytes or as ``"2 GB"``, is what the process may have, with its workers: a query or a
    change that goes beyond it ends in an OperationalError, and the database is as it was before.

    ``history`` is how long the past is kept, as a time (``"1 hour"``) or a number of epochs, for ``SELECT ...
    AS OF``, ``View.as_of`` and ``View.changes(since=...)``. Without it nothing is.

    ``workers`` is how many processes of this machine share the work: see docs/explanation/workers.md. With
    ``spark``, a SparkSession, they are tasks of its executors, on whatever machines these are.
    """
    wanted = {"synchronous": synchronous, "read_only": read_only, "functions": functions}
    _check("folder", folder, (str, _Path), "a path")
    _check("memory_limit", memory_limit, (str, int), 'bytes or a size such as "2 GB"')
    _check("merge_effort", merge_effort, (str,), "a text")
    _check("synchronous", synchronous, (str,), "a text")
    _check("read_only", read_only, (bool,), "True or False")
    check_argument("workers", workers, int, "a number")
    if functions is not None and not (hasattr(functions, "items") and all(map(callable, functions.values()))):
        raise InterfaceError("functions are not a mapping of functions by name", hint="give a dict")
    if workers != 1 or spark is not None:
        options = {"folder": folder, "memory_limit": memory_limit, "history": history}
        return import_at_rest("kpg.api.connect").connected(workers, spark, merge_effort, options, wanted)
    make = import_at_rest("kpg.api.database").Database
    if folder is None:
        if read_only:
            errors = import_at_rest("kpg.runtime.errors")
            raise errors.InterfaceError(
                "read_only is for a database in a folder", hint="give the folder, too"
            )
        database: Database = make(merge_effort, memory_limit, history)
        return database
    database = make(merge_effort, memory_limit, history, folder=folder, **wanted)
    return database


def _check(name: str, value: object, kinds: tuple[type, ...], what: str) -> None:
    """InterfaceError for an argument of a wrong type, which None is not."""
    if value is not None:
        check_argument(name, value, bool if bool in kinds else kinds, what)


def __getattr__(name: str) -> object:
    """The classes of the public API, imported when first asked for: ``import kpg`` stays quick."""
    if name == "graph":
        return import_at_rest("kpg.graph")
    if name not in _LAZY:
        raise AttributeError(f"module 'kpg' has no attribute {name!r}")
    return getattr(import_at_rest(f"kpg.{_LAZY[name]}"), name)
