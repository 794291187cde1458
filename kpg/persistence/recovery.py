"""Recovery: opens a folder, replays the log onto its tables, then builds views and indexes from them.

``DefinitionRestorer`` recreates the definitions from the recovered state: tables before their rows
are replayed, views and programs after them.
"""

import errno
import gc
import importlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Heir, UniqueIndex
from kpg.compiler.catalog.entries import (
    AGGREGATES,
    CLOCK,
    CLOCK_SCHEMA,
    COMMENTS,
    EXTENSIONS,
    INDEXES,
    PARTITIONED,
    PARTITIONS,
    POLICIES,
    PUBLIC,
    RELATIONS,
    ROUTINES,
    ROW_SECURITY,
    SCHEMAS,
    SEQUENCES,
    STALE_TEXTS,
    TYPES,
    UNIQUE_INDEXES,
    TableEntry,
)
from kpg.compiler.catalog.operations import CatalogOp
from kpg.compiler.catalog.privileges import ACLS, DEFAULT_ACLS, OWNERS, ROLES
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import mark_qualified
from kpg.compiler.sql.bind.user_aggregates import FOLD_PREFIX
from kpg.execute.definitions.views import make_replanner
from kpg.persistence.checkpoints import Checkpoints
from kpg.persistence.database_state import (
    HISTORY_ENTRY,
    Key,
    RecoveredHistory,
    State,
    StateChanges,
    UnsupportedDefinition,
    make_codec,
)
from kpg.persistence.write_ahead_log import (
    COMMIT_RECORD,
    ROWS_RECORD,
    WriteAheadLog,
    decode_rowids,
    restore_strings,
)
from kpg.runtime.errors import Error, InterfaceError, OperationalError
from kpg.runtime.gc_pause import LazyModule, pause_collector
from kpg.runtime.progress_report import iterate_with_progress
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.storage.codec import Codec, DamagedError
from kpg.runtime.storage.files import Bytes, Disk, Files, Lock, make_folder
from kpg.runtime.storage.log import (
    HEADER_BYTES,
    CommittedFile,
    Log,
    Segment,
    damage_error,
    describe_records,
    read_committed,
    segment_name,
    segment_number,
)
from kpg.runtime.storage.packs import (
    NEW_MANIFEST_NAME,
    Manifest,
    Placed,
    PlacedStrings,
    Sharded,
    activate_manifest,
    read_manifest,
    unpack,
    write_manifest,
)
from kpg.runtime.storage.snapshot import FilesSnapshot
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.datalog import dispatch
    from kpg.execute.definitions import indexes, python_functions, routines
    from kpg.runtime import extensions
    from kpg.session.engine import Engine
else:
    dispatch = LazyModule("kpg.datalog.dispatch")
    extensions = LazyModule("kpg.runtime.extensions")
    indexes = LazyModule("kpg.execute.definitions.indexes")
    python_functions = LazyModule("kpg.execute.definitions.python_functions")
    routines = LazyModule("kpg.execute.definitions.routines")


class DefinitionRestorer:
    """Restores the definitions of an engine. ``tables`` has their names by number.

    Unless the restore is ``whole``, no user function is imported, and the views that call one are
    skipped.
    """

    def __init__(
        self, engine: "Engine", functions: Mapping[str, Callable[..., Any]] | None, *, whole: bool = True
    ) -> None:
        self._engine = engine
        self._imports = functions is None and whole
        self._whole = whole
        self.skipped: dict[str, str] = {}
        """The reasons for skipped views and programs, by name."""
        self._given_functions = {name.lower(): function for name, function in (functions or {}).items()}
        engine.supplied_functions = frozenset(self._given_functions)
        self._functions: dict[str, UserFunctionName[Any]] = {}
        self._restored: set[Key] = set()
        self._state: State = {}
        self.tables: dict[int, str] = {}
        self.widths: dict[int, int] = {}

    def named_function(self, name: str) -> Any:
        """Return the name by which plans call a user function. It gets the function when that is restored."""
        if name not in self._functions:
            plain, _, number = name.partition("#")
            self._functions[name] = UserFunctionName(plain, int(number))
        return self._functions[name]

    def create_tables(self, state: State) -> None:
        """Create the empty tables, and all definitions that do not depend on rows."""
        self._state = state
        engine, catalog = self._engine, self._engine.catalog
        for name in (key[1] for key in state if key[0] == "extension"):
            if extensions.find(name) is None and self._whole:
                raise extensions.missing_error(name, "the folder")
            catalog.apply(EXTENSIONS.put(name, state["extension", name]))
        # Before tables: workers receive rows by DISTRIBUTED BY, which is an extra.
        engine.extras.update((key[1], value) for key, value in state.items() if key[0] == "extra")
        for key, value in state.items():
            if key[0] == "table":
                self._create_table(value[0], value[1].name, value[1].schema)
        restored = (_restored_object(key, value, state) for key, value in state.items())
        catalog.apply(SCHEMAS.put(PUBLIC, PUBLIC), *(op for op in restored if op is not None))
        for key, value in state.items():
            if key[0] == "number":
                engine.sequences.next[catalog.sequences[key[1]].name] = value
        number, clock_time = state.get(("clock",), (None, None))
        engine.clock.advanced_time = clock_time
        if number is not None:
            self._create_table(number, CLOCK, CLOCK_SCHEMA)
            engine.clock.has_row = True

    def _create_table(self, number: int, name: str, schema: Schema) -> None:
        self._engine.executor.create_table(name, schema, number)
        self.tables[number] = name
        self.widths[number] = len(schema.columns)

    def restore_checkpoint(self, before: State) -> None:
        """Restore the definitions that are the same as in the checkpoint, with their stored contents."""
        engine = self._engine
        for key, value in self._state.items():
            if key[0] == "table":
                uniques = [unique.name for unique in value[1].constraints.uniques]
                engine.executor.tables.has_restored(value[1].name, uniques)
                if before.get(key) == value:
                    engine.tables.adopt(value[1])
                    self._restored.add(key)
        self._restore_functions()
        unchanged = {
            key: value for key, value in self._unrestored_relations().items() if before.get(key) == value
        }
        self._restore_relations(unchanged, requires_all=False)

    def finish(self) -> None:
        """Restore the other definitions. The tables must have all their rows."""
        engine, state = self._engine, self._state
        for key, value in state.items():
            if key[0] == "table" and key not in self._restored:
                engine.tables.adopt(value[1])
        has_unique_index = any(isinstance(value, UniqueIndex) for value in state.values())
        if has_unique_index or any(
            key[0] == "table" and value[1].constraints.has_row_checks for key, value in state.items()
        ):
            engine.tables.refresh_constraints()
        self._restore_functions()
        self._restore_relations(self._unrestored_relations(), requires_all=True)
        indexes = {
            key[1]: mark_qualified(value, "name", "table")
            for key, value in state.items()
            if key[0] == "index"
        }
        engine.catalog.apply(*(INDEXES.put(name, index) for name, index in indexes.items()))
        for index in indexes.values():
            self._restore_index(index)
        self._restore_goals()
        counters = state.get(("made",), (0, 0, 0))
        engine.catalog.function_count, engine.dataflows_made, tables = counters
        # Reinstalled goals have just created tables with numbers of their own.
        engine.executor.tables.last_table_number = max(tables, engine.executor.tables.last_table_number)

    def _restore_index(self, index: Any) -> None:
        if index.columns:
            indexes.install(self._engine, index)

    def _restore_function(self, name: str, stored: Any) -> None:
        number, import_path, args, returns, columns, nulls = stored
        function = self._given_functions.get(name)
        if function is None and import_path is not None and self._imports:
            function = _import_function(name, import_path)
        if function is None:
            users = [key[1] for key, value in self._state.items() if key[0] == "view" and _calls(value, name)]
            users_text = f", which {', '.join(users)} use{'s' if len(users) == 1 else ''}," if users else ""
            raise OperationalError(
                f"function {name}{users_text} has to be given again",
                hint=f"kpg.connect(folder, functions={{{name!r}: ...}})",
            )
        self._engine.catalog.function_count = number - 1
        returned = dict(returns) if isinstance(returns, tuple) else returns
        python_functions.create(self._engine, name, function, args, returned, columns=columns, nulls=nulls)
        qualified = self._engine.catalog.functions[name]
        self.named_function(str(qualified)).definition = qualified.definition

    def _restore_functions(self) -> None:
        for key, value in self._state.items():
            if key[0] == "function" and key not in self._restored and self._whole:
                self._restore_function(key[1], value)
                self._restored.add(key)
        folds = {name: made for name, made in self._functions.items() if name.partition("#")[0].endswith(")")}
        if folds:
            for name, function in folds.items():
                fold = routines.fold_by_label(self._engine, name.partition("#")[0])
                if fold is not None:
                    self._engine.folds.register(fold, function)

    def _restore_goals(self) -> None:
        texts = [key[1] for key in self._state if key[0] == "goal"]
        if texts:
            dispatch.reprepare_goals(self._engine, texts)

    def _unrestored_relations(self) -> State:
        kinds = ("view", "program")
        return {
            key: value for key, value in self._state.items() if key[0] in kinds and key not in self._restored
        }

    def _restore_relations(self, pending: State, *, requires_all: bool) -> None:
        """Restore views and programs in dependency order; without ``requires_all``, as many as possible."""
        while pending:
            before = len(pending)
            for key, value in list(pending.items()):
                if key[0] == "view" and not self._has_dependencies(value[1]):
                    continue
                try:
                    if key[0] == "view":
                        self._restore_view(value)
                    else:
                        self._restore_program(key[1], value)
                except Error as error:
                    if not (requires_all and self._whole):
                        self._discard_view(key)
                        del pending[key]
                        if requires_all:
                            self.skipped[key[1]] = error.message
                        continue
                    raise OperationalError(
                        f"{key[0]} {key[1]} cannot be made again: {error}",
                        hint="see the error that caused it",
                    ) from error
                self._restored.add(key)
                del pending[key]
            if len(pending) == before:
                if not requires_all:
                    return
                if not self._whole:
                    self.skipped.update((key[1], self._skip_reason(value)) for key, value in pending.items())
                    return
                name = next(iter(pending))[1]
                raise OperationalError(f'"{name}" cannot be made again: something that it uses is missing')

    def _skip_reason(self, value: Any) -> str:
        """Return the reason why a view is skipped when nothing is imported."""
        for key, function in self._state.items():
            if key[0] == "function" and _calls(value, key[1]):
                return f"it calls {key[1]}, a function of {function[1] or 'no module'}"
        return "it reads a skipped relation"

    def _discard_view(self, key: Key) -> None:
        """Discard a view that could not be restored from the checkpoint, so that it is computed later."""
        engine = self._engine
        if key[0] == "view":
            name = self._state[key][0].name
            engine.catalog.apply(RELATIONS.remove(name.lower()), STALE_TEXTS.remove(name))

    def _has_dependencies(self, uses: tuple[str, ...]) -> bool:
        catalog, flows = self._engine.catalog, self._engine.dataflows
        functions = set(catalog.functions.values())
        return all(
            name in catalog
            or name in flows
            or name in functions
            or name == CLOCK
            or name.startswith("function ")
            or hasattr(name, "definition")
            for name in uses
        )

    def _restore_view(self, value: tuple[Any, ...]) -> None:
        entry, uses, is_stale, materialization = value
        if entry.of_system:
            entry = replace(entry, definition=make_replanner(self._engine, entry.text))
        self._engine.views.restore(entry, frozenset(uses), materialization, is_stale=is_stale)

    def _restore_program(self, label: str, value: Any) -> None:
        dispatch.reinstall(self._engine, label, value, self._find_functor)

    def _find_functor(self, name: str, import_path: str) -> Any:
        function = self._given_functions.get(name.lower())
        if function is not None:
            return function
        if not import_path or not self._imports:
            raise OperationalError(
                f"functor {name} has to be given again",
                hint=f"kpg.connect(folder, functions={{{name!r}: ...}})",
            )
        return _import_function(name, import_path)


def _mark_targets_qualified(entry: TableEntry) -> TableEntry:
    for foreign_key in entry.constraints.foreign_keys:
        mark_qualified(foreign_key, "target")
    return entry


def _calls(value: Any, name: str) -> bool:
    return any(dependency.partition("#")[0] == name for dependency in value[1] if "#" in dependency)


def _import_function(name: str, import_path: str) -> Any:
    module, _, attribute = import_path.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise OperationalError(
            f"function {name} cannot be imported from {import_path}: {error}",
            hint=f"make it importable, or pass it: kpg.connect(folder, functions={{{name!r}: ...}})",
        ) from error
    return value


def _unsupported_error(description: str) -> OperationalError:
    """Return the error for a definition of a kind that this version does not support."""
    return OperationalError(
        f"the folder has {description}: this version does not support such definitions",
        hint="drop it with the version of kpg that wrote the folder",
    )


def _supported_routines(stored: tuple[Routine | UnsupportedDefinition, ...]) -> tuple[Routine, ...]:
    """Return the functions of a name, without those that implemented aggregates in earlier versions."""
    routines: list[Routine] = []
    for routine in stored:
        if isinstance(routine, Routine):
            routines.append(routine)
        elif not routine.fields["name"].rpartition(".")[2].startswith(FOLD_PREFIX):
            raise _unsupported_error(
                f'{routine.fields["kind"]} "{routine.fields["name"]}", which is not one query'
            )
    return tuple(routines)


def _restored_object(key: Key, value: Any, state: State) -> CatalogOp | None:
    """Return the operation that restores an object of the catalog; None for entries of other kinds."""
    match key[0]:
        case "table":
            return RELATIONS.put(key[1], _mark_targets_qualified(value[1]))
        case "schema":
            return SCHEMAS.put(key[1], value)
        case "type":
            return TYPES.put(key[1], value)
        case "sequence":
            return SEQUENCES.put(key[1], mark_qualified(value, "name"))
        case "routine":
            supported = _supported_routines(value)
            return ROUTINES.put(key[1], supported) if supported else None
        case "other":
            return _restored_table_object(key, value, state)
        case "comment":
            return COMMENTS.put(key[1:], value)
        case "role":
            return ROLES.put(key[1], value)
        case "owner":
            return OWNERS.put(key[1:], value)
        case "list":
            return ACLS.put(key[1:], value)
        case "default":
            return DEFAULT_ACLS.put((key[1], key[2], key[3]), value)
    return None


def _restored_table_object(key: Key, value: Any, state: State) -> CatalogOp:
    """Return the operation for an aggregate, policy, partition or unique index."""
    kind, table, name = key[1:]
    if kind == "aggregate":
        return AGGREGATES.put(table, _add_result_types(value, state))
    if isinstance(value, UnsupportedDefinition) or (isinstance(value, Heir) and value.told is None):
        raise _unsupported_error(f'{kind} "{name}" of "{table}"')
    mark_qualified(value, "table", "parent", "child", "kept")
    match kind:
        case "policy":
            return POLICIES.put((table, name), value)
        case "secured":
            return ROW_SECURITY.put(table, value)
        case "partitioned":
            return PARTITIONED.put(table, value)
        case "inherits":
            return PARTITIONS.put(name, value)
        case _:  # "unique index"; "exclusion" in earlier versions
            return UNIQUE_INDEXES.put((table, name), value)


def _add_result_types(aggregates: tuple[Aggregate, ...], state: State) -> tuple[Aggregate, ...]:
    """Return aggregates with their result types, which earlier versions stored with their functions."""
    completed = []
    for aggregate in aggregates:
        folds = (
            definition
            for definition in state.get(("routine", aggregate.fold), ())
            if isinstance(definition, UnsupportedDefinition)
        )
        result = next((definition.fields["result"] for definition in folds), None)
        completed.append(replace(aggregate, result=aggregate.result or result))
    return tuple(completed)


Words = NDArray[np.int64]
LOCK_NAME: Final = "lock"
"""The name of the lock file."""
SYNC_MODES: Final = ("full", "normal", "off")
"""The values of ``synchronous``."""
MAX_STEP_ROWS: Final = 1 << 22
"""Maximum number of rows that are replayed in one step."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options for opening a folder.

    With ``functions``, views call these, and no function is imported. Without ``whole``, nothing is
    imported, and definitions that need an import are skipped.
    """

    synchronous: str = "full"
    read_only: bool = False
    functions: Mapping[str, Callable[..., Any]] | None = None
    whole: bool = True


def open_folder(engine: "Engine", folder: str | Path, **options: Any) -> dict[str, str]:
    """Open the database of a folder in an engine. The folder is created if it does not exist.

    The options are those of :class:`OpenOptions`. Returns the reasons for skipped definitions, by name.
    """
    try:
        open_options = OpenOptions(**options)
        _check_options(str(folder), open_options)
        return _open_folder(engine, Path(folder), open_options)
    except BaseException:
        engine.close()
        raise


def _check_options(folder: str, options: OpenOptions) -> None:
    """Check the folder's name and the options, before anything is created."""
    if not folder:
        raise OperationalError("a folder without a name cannot be opened", hint='kpg.connect("folder")')
    if folder == ":memory:":
        raise InterfaceError(f"{folder} is no folder", hint="kpg.connect() is a database in memory")
    if "://" in folder:
        raise InterfaceError(f"{folder} is no folder", hint="a Postgres driver connects to a server")
    if options.synchronous not in SYNC_MODES:
        raise InterfaceError(
            f'there is no mode "{options.synchronous}"', hint=f"synchronous is one of {', '.join(SYNC_MODES)}"
        )


def _open_folder(engine: "Engine", path: Path, options: OpenOptions) -> dict[str, str]:
    try:
        if not path.exists() and not options.read_only:
            make_folder(path)
        if not path.is_dir():
            reason = "is a file" if path.exists() else "does not exist"
            raise OperationalError(f"{path} {reason}", hint="a database is a folder")
    except OSError as error:
        raise _os_error(str(path), error, "opened" if os.path.exists(path) else "made") from error
    except ValueError as error:  # a name that the operating system rejects
        raise OperationalError(f"{path!r} cannot be opened: {error}") from error
    return open_files(engine, Disk(path), options)


def open_files(engine: "Engine", files: Files, options: OpenOptions) -> dict[str, str]:
    """Open a database from files of any kind, as :func:`open_folder` does."""
    lock: Lock | None = None
    try:
        _check_files(files, options)
        if not options.read_only:
            lock = _lock_folder(files)
        if options.read_only:
            files = FilesSnapshot(files)
        opening = _Recovery(engine, files, options)
        opening.run(lock)
        return opening.restorer.skipped
    except BaseException as error:
        if lock is not None and engine.write_ahead_log is None:
            lock.release()
        if isinstance(error, OSError):
            raise _os_error(files.where, error) from error
        raise


def _check_files(files: Files, options: OpenOptions) -> None:
    """Raise OperationalError for a folder with other contents, before anything is written to it."""
    names = files.list()
    if options.read_only and "manifest" not in names:
        raise OperationalError(f"{files.where} is no database of kpg", hint="it has no manifest")
    others = [name for name in names if name != LOCK_NAME and not name.startswith(NEW_MANIFEST_NAME)]
    if "manifest" not in names and set(others) - set(_unfinished_files(names)):
        raise OperationalError(
            f"{files.where} is no database of kpg: it has other files, and no manifest",
            hint="give an empty folder, or one that is not there",
        )


def _unfinished_files(names: Sequence[str]) -> list[str]:
    """Return the log of a database whose creation did not reach the manifest."""
    return [name for name in names if name == segment_name(1)]


def _lock_folder(files: Files) -> Lock:
    own_name = f"process {os.getpid()} on {socket.gethostname()}"
    lock = files.lock(LOCK_NAME, own_name)
    if lock == own_name:
        # An unreferenced database may not be collected yet.
        gc.collect()
        lock = files.lock(LOCK_NAME, own_name)
    if isinstance(lock, str):
        holder = f"{lock}, which is this one" if lock == own_name else lock
        raise OperationalError(
            f"{files.where} is in use by {holder}",
            hint="close it there first, or read it with connect(read_only=True), kpg sql --read-only",
        )
    return lock


def _os_error(where: str, error: OSError, action: str = "opened") -> OperationalError:
    reason = error.strerror or str(error)
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "see to its permissions"
        with suppress(OSError):
            if Path(where, "manifest").exists():
                hint = f"read it by connect(read_only=True) or kpg sql --read-only, or {hint}"
    elif error.errno == errno.ENOENT and action == "opened":
        hint = "a file of the database is missing: restore a backup"
    if isinstance(error.filename, str) and Path(error.filename).name == error.filename not in (
        LOCK_NAME,
        where,
    ):
        where = f"{where}/{error.filename}"
    return OperationalError(f"{where} cannot be {action}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class _LogEnd:
    """The end of the log: the last segment, the end of its records, and the next record number.

    ``unused`` are the names of later segments without records.
    """

    segment: Segment
    segment_number: int
    end: int
    next_record: int
    unused: list[str]


class _Recovery:
    """The recovery of one database.

    All files are read before the engine changes, so each definition is restored once, in its last form.
    """

    def __init__(self, engine: "Engine", files: Files, options: OpenOptions) -> None:
        self.engine = engine
        self.files = files
        self.options = options
        self.restorer = DefinitionRestorer(engine, options.functions, whole=options.whole)
        self.codec: Codec = make_codec(self.restorer.named_function)
        self.state: State = {}
        self.commits: list[tuple[int, Any, Any, int]] = []
        self.epoch = 0
        self.last_synced = -1
        """The last record that is known to be synced."""
        self.history = RecoveredHistory()
        self.checkpoint_state: State | None = None
        """The catalog of the checkpoint, if there is one."""
        self.log_bytes = self.strings = 0
        """Bytes of log after the checkpoint, and the number of strings in both."""

    def run(self, lock: Lock | None) -> None:
        mode = self.options.synchronous
        if not self.options.read_only:
            # Make renames and removals before a kill durable.
            self.files.sync()
        recorder = WriteAheadLog(self.engine, self.files, lock, self.codec, mode)
        manifest = read_manifest(self.files)
        log: Log | None = None
        if manifest is None:
            log, manifest = self._create()
            log.committed_file = CommittedFile.open(self.files, manifest.database, -1)
            checkpoints = self._make_checkpoints(recorder, manifest, lock)
        else:
            checkpoints = self.checkpoints = self._make_checkpoints(recorder, manifest, lock)
            # Read before the log: a running writer may advance it beyond what is read here.
            self.last_synced = read_committed(self.files, manifest.database)
            with pause_collector():
                if manifest.checkpoint is not None:
                    self.checkpoint_state = checkpoints.restore(manifest.checkpoint)
                    self.state, self.epoch = dict(self.checkpoint_state), manifest.checkpoint.epoch
                log_end = self._read_log(manifest)
            self._replay_commits()
            checkpoints.record_versions()
            if not self.options.read_only:
                # All damage that matters has been found by now; nothing was changed before.
                log = self._resume_log(
                    log_end, CommittedFile.open(self.files, manifest.database, self.last_synced)
                )
                checkpoints.remove_unreferenced(manifest.segment)
            checkpoints.count_log_bytes(self.log_bytes)
        self.engine.write_ahead_log = recorder
        recorder.log_packs = checkpoints.log_packs
        recorder.start(log, self.state, manifest.database, self.strings)
        if not self.options.read_only:
            recorder.enable_checkpoints(checkpoints)
        if self.options.read_only:
            recorder.refuses = f"{self.files.where} was opened with read_only=True"

    def _make_checkpoints(
        self, recorder: WriteAheadLog, manifest: Manifest, lock: Lock | None
    ) -> Checkpoints:
        release = (lambda: None) if lock is None else lock.release
        return Checkpoints(
            self.engine, self.files, self.codec, manifest.database, recorder.start_segment, release
        )

    def _create(self) -> tuple[Log, Manifest]:
        for name in _unfinished_files(self.files.list()):
            self.files.remove(name)
        database = int.from_bytes(os.urandom(8), "little", signed=True)
        log = Log.create(self.files, 1, database, 1, direct=self._uses_direct_io)
        manifest = Manifest(database, 1)
        try:
            write_manifest(self.files, manifest)
            activate_manifest(self.files)
        except BaseException:
            log.close()
            raise
        return log, manifest

    @property
    def _uses_direct_io(self) -> bool:
        """Whether the log bypasses the page cache, which does not help when every commit is synced."""
        return self.options.synchronous == "full"

    # Reading

    def _read_log(self, manifest: Manifest) -> "_LogEnd":
        """Read all segments, and return the end of the log."""
        numbers = [segment_number(name) for name in self.files.list()]
        present = sorted(
            candidate for candidate in numbers if candidate is not None and candidate >= manifest.segment
        )
        if present[:1] != [manifest.segment] or present != list(
            range(manifest.segment, manifest.segment + len(present))
        ):
            missing = next(
                n for n in range(manifest.segment, manifest.segment + len(present) + 1) if n not in present
            )
            raise DamagedError(
                f"{self.files.where}/{segment_name(missing)} is missing", hint="restore a backup"
            )
        segments = [Segment(self.files, number, manifest.database) for number in present]
        first_missing, unused = self._remove_empty_segments(segments)
        end, number = HEADER_BYTES, segments[0].first
        next_readable = number
        for current, segment in zip(present, segments, strict=False):
            end, early_rows = HEADER_BYTES, list[Any]()
            if segment.is_empty:
                raise DamagedError(f"{segment.where} is damaged at byte 0: it has no header")
            if segment.first != number:
                raise DamagedError(f"{segment.where} does not follow the segment before it")
            for record in segment.records():
                next_readable = record.number + 1
                if record.kind in (ROWS_RECORD, COMMIT_RECORD):
                    self.log_bytes += record.end - record.start
                if record.kind == ROWS_RECORD:
                    early_rows += self.codec.decode(record.payload)
                    continue
                end, number = record.end, record.number + 1
                if record.kind == COMMIT_RECORD:
                    value = self.codec.decode(record.payload)
                    self._add_commit(
                        value, early_rows, current, f"{segment.where} is damaged at byte {record.start}"
                    )
                    early_rows = []
        if first_missing > number:
            raise damage_error(segments[-1], end, f"records up to {first_missing - 1} are missing")
        if self.last_synced >= next_readable:
            lost = describe_records(next_readable, self.last_synced)
            raise damage_error(segments[-1], end, f"{lost} had been synced, and cannot be read any more")
        return _LogEnd(segments[-1], present[len(segments) - 1], end, number, unused)

    def _remove_empty_segments(self, segments: list[Segment]) -> tuple[int, list[str]]:
        """Remove empty segments at the end of the list.

        Returns the highest number of a first record among them, or 0, and their names.

        They may have been created partially, and their names may not survive a power failure.
        """
        first, names = 0, list[str]()
        while len(segments) > 1 and (segments[-1].is_empty or next(segments[-1].records(), None) is None):
            removed = segments.pop()
            first = max(first, removed.first)
            names.append(removed.name)
        return first, names

    def _resume_log(self, log_end: "_LogEnd", proof: CommittedFile) -> Log:
        """Continue the last segment at the end of its records."""
        for name in log_end.unused:
            self.files.remove(name)
            self.files.sync()
        return Log.resume(
            *(self.files, log_end.segment, log_end.segment_number, log_end.end, log_end.next_record),
            direct=self._uses_direct_io,
            committed_file=proof,
        )

    def _add_commit(self, value: Any, early_rows: list[Any], segment: int, damage_text: str) -> None:
        try:
            epoch, strings, rows, (removed, updated), moment = value
            changes = StateChanges(removed, updated)
            self.history.add_commit(epoch, moment, self.state, changes, len(self.commits))
            changes.apply_to(self.state)
        except (TypeError, ValueError) as error:
            raise DamagedError(f"{damage_text}: it has no commit there") from error
        self.commits.append((epoch, strings, [*early_rows, *rows], segment))
        self.epoch = epoch

    # Replay

    def _replay_commits(self) -> None:
        engine, restoring = self.engine, self.restorer
        for _, strings, _, segment in self.commits:
            if strings is not None:  # before the strings of rows that workers have written
                restore_strings(engine, *self._read_strings(segment, *strings))
        self.strings = len(engine.executor.dictionary)
        with pause_collector():
            restoring.create_tables(self.state)
            if self.checkpoint_state is not None:
                restoring.restore_checkpoint(self.checkpoint_state)
        pending_rows = 0
        is_finished = False
        computed: list[str] = []
        commits = iterate_with_progress(self.commits, f"opening {self.files.where}", "commits")
        for index, (epoch, _, rows, segment) in enumerate(commits):
            for change in rows:
                pending_rows += self._replay_change(segment, *change)
            # With history, views exist from the last definition on, so that their later changes are known.
            is_finished = is_finished or (
                engine.history is not None and index == self.history.last_definition
            )
            if pending_rows > MAX_STEP_ROWS or (is_finished and index == self.history.last_definition):
                engine.executor.step_replayed(epoch)
                pending_rows = 0
            if is_finished and index == self.history.last_definition:
                computed = engine.executor.finish_restore()
                restoring.finish()
        engine.executor.step_replayed(self.epoch)
        if self.commits and not is_finished:
            # Unclaimed state of the checkpoint lacks the replayed commits.
            computed = engine.executor.finish_restore()
        self.commits.clear()
        if not is_finished:
            restoring.finish()
        computed += engine.executor.finish_restore()
        if computed and self.checkpoint_state is not None:
            import logging  # lazy: the start does without it

            logging.getLogger("kpg").info(
                "%s: not in the checkpoint, so computed: %s", self.files.where, ", ".join(computed)
            )
        self.history.restore(engine, restoring.tables)
        self.state.pop(("extra", HISTORY_ENTRY), None)  # stored by checkpoints only

    def _read_strings(self, segment: int, first: int, *stored: Any) -> tuple[int, Words, Bytes]:
        if isinstance(stored[0], PlacedStrings):
            offsets, arena = self.checkpoints.read_strings(stored[0], segment)
            return first, offsets[first:] - offsets[first], arena[offsets[first] :]
        bounds, data = stored
        return first, bounds, data

    def _replay_change(
        self, segment: int, epoch: int, number: int, deleted: Any, inserted: Any, words: Any
    ) -> int:
        name = self.restorer.tables.get(number)
        if name is None:
            return 0
        if isinstance(words, Sharded):
            self.checkpoints.add_shards(words, segment)
            self.engine.executor.replay_shards(epoch, name, inserted[0], words)
            return words.rows
        rowids = decode_rowids(inserted)
        count = rowids.shape[0]
        if isinstance(words, Placed):
            contents = self.checkpoints.read_rows(words, number, segment)[:, :count]
        else:
            width = self.restorer.widths[number]
            contents = np.empty((width, 0), np.int64) if words is None else unpack(words, count)
        self.engine.executor.tables.replay(epoch, name, decode_rowids(deleted), rowids, contents)
        return count
