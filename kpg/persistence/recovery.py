"""Recovery: opens a folder, replays the log onto its tables, then builds views and indexes from them.

``Restoring`` recreates the definitions from the recovered state: tables before their rows are replayed, views
and programs after them.
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
from kpg.compiler.catalog.entries import CLOCK, CLOCK_SCHEMA, PUBLIC, TableEntry
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.qualified_names import resolve
from kpg.compiler.sql.bind.user_aggregates import PREFIX
from kpg.execute.definitions.views import asked_again
from kpg.gc_pause import LazyModule, collector_at_rest
from kpg.persistence.checkpoints import Checkpoints
from kpg.persistence.database_state import PAST, Changes, Key, Removed, State, Times, codec
from kpg.persistence.write_ahead_log import COMMIT, ROWS, Keeper, intern, rowids_of
from kpg.runtime.errors import Error, InterfaceError, OperationalError
from kpg.runtime.progress_report import counted
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.storage.codec import Codec, DamagedError
from kpg.runtime.storage.files import Bytes, Disk, Files, Lock, make_folder
from kpg.runtime.storage.log import (
    HEADER_BYTES,
    Log,
    Proof,
    Segment,
    damage_at,
    read_proof,
    records_between,
    segment_name,
    segment_number,
)
from kpg.runtime.storage.packs import (
    NEW,
    Manifest,
    Placed,
    PlacedStrings,
    Sharded,
    read_manifest,
    swap,
    unpack,
    write_beside,
)
from kpg.runtime.storage.snapshot import Still
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.datalog import dispatch
    from kpg.execute.definitions import indexes, python_functions, routines
    from kpg.session.engine import Engine
else:
    dispatch = LazyModule("kpg.datalog.dispatch")
    indexes = LazyModule("kpg.execute.definitions.indexes")
    python_functions = LazyModule("kpg.execute.definitions.python_functions")
    routines = LazyModule("kpg.execute.definitions.routines")


class Restoring:
    """One engine that gets its definitions back. ``tables`` are their names by number.

    If it need not be ``whole``, there are no functions of users: what calls them is ``left`` out.
    """

    def __init__(
        self, engine: "Engine", functions: Mapping[str, Callable[..., Any]] | None, *, whole: bool = True
    ) -> None:
        self._engine = engine
        self._imports = functions is None and whole
        self._whole = whole
        self.left: dict[str, str] = {}
        """Views and programs that are not there, and why."""
        self._given = {name.lower(): function for name, function in (functions or {}).items()}
        engine.given_anew = frozenset(self._given)
        self._functions: dict[str, Named[Any]] = {}
        self._done: set[Key] = set()
        self._state: State = {}
        self.tables: dict[int, str] = {}
        self.widths: dict[int, int] = {}

    def function(self, name: str) -> Any:
        """The name by which plans call a users' function; it carries the function once that is there."""
        if name not in self._functions:
            plain, _, number = name.partition("#")
            self._functions[name] = Named(plain, int(number))
        return self._functions[name]

    def begin(self, state: State) -> None:
        """Make the tables, empty, and all that needs no rows."""
        self._state = state
        engine, catalog = self._engine, self._engine.catalog
        # Before tables: workers are sent the rows that are theirs by what DISTRIBUTED BY says.
        engine.extras.update((key[1], value) for key, value in state.items() if key[0] == "extra")
        for key, value in state.items():
            match key[0]:
                case "schema":
                    catalog.schemas[key[1]] = value
                case "type":
                    catalog.types[key[1]] = value
                case "sequence":
                    catalog.sequences[key[1]] = resolve(value, "name")
                case "routine":
                    kept = _routines(value)
                    if kept:
                        catalog.routines[key[1]] = kept
                case "other" if key[1] == "aggregate":
                    catalog.others[key[1:]] = _with_results(value, state)
                case "other":
                    self._other(key, value)
                case "comment":
                    catalog.comments[key[1:]] = value
                case "role":
                    catalog.rights.roles[key[1]] = value
                case "owner":
                    catalog.rights.owners[key[1:]] = value
                case "list":
                    catalog.rights.lists[key[1:]] = value
                case "default":
                    catalog.rights.defaults[key[1], key[2], key[3]] = value
                case "table":
                    self._table(value[0], value[1].name, value[1].schema)
                    catalog.add(_resolved(value[1]))
        catalog.schemas.setdefault(PUBLIC, PUBLIC)
        for key, value in state.items():
            if key[0] == "number":
                engine.sequences.next[catalog.sequences[key[1]].name] = value
        number, given = state.get(("clock",), (None, None))
        engine.clock.given = given
        if number is not None:
            self._table(number, CLOCK, CLOCK_SCHEMA)
            engine.clock.kept = True

    def _other(self, key: Key, value: Any) -> None:
        """A definition of a relation beside the relation itself."""
        kind, *names = key[1:]
        if isinstance(value, Removed) or (isinstance(value, Heir) and value.told is None):
            raise _no_more(f'{kind} "{names[-1]}" of "{names[0]}"')
        kind = "unique index" if isinstance(value, UniqueIndex) else kind  # earlier versions say exclusion
        self._engine.catalog.others[kind, *names] = resolve(value, "table", "parent", "child", "kept")

    def _table(self, number: int, name: str, schema: Schema) -> None:
        self._engine.executor.create_table(name, schema, number)
        self.tables[number] = name
        self.widths[number] = len(schema.columns)

    def restore(self, before: State) -> None:
        """Make what was so in a checkpoint, with the rows and contents that it had there."""
        engine = self._engine
        for key, value in self._state.items():
            if key[0] == "table":
                uniques = [one.name for one in value[1].constraints.uniques]
                engine.executor.keeps(value[1].name, uniques)
                if before.get(key) == value:
                    engine.tables.adopt(value[1])
                    self._done.add(key)
        self._functions_again()
        same = {key: value for key, value in self._relations_left().items() if before.get(key) == value}
        self._relations(same, all_of_them=False)

    def finish(self) -> None:
        """Make the rest, now that rows are there."""
        engine, state = self._engine, self._state
        for key, value in state.items():
            if key[0] == "table" and key not in self._done:
                engine.tables.adopt(value[1])
        indexed = any(isinstance(value, UniqueIndex) for value in state.values())
        if indexed or any(key[0] == "table" and value[1].constraints.guarded for key, value in state.items()):
            engine.tables.refresh_rules()
        self._functions_again()
        self._relations(self._relations_left(), all_of_them=True)
        for key, value in state.items():
            if key[0] == "index":
                engine.catalog.indexes[key[1]] = resolve(value, "name", "table")
                self._index(value)
        self._goals_again()
        made = state.get(("made",), (0, 0, 0))
        engine.catalog.functions_made, engine.dataflows_made, tables = made
        # What programs have for their goals was made just now, with numbers of its own.
        engine.executor.tables_made = max(tables, engine.executor.tables_made)

    def _index(self, index: Any) -> None:
        if index.columns:
            indexes.install(self._engine, index)

    def _function(self, name: str, given: Any) -> None:
        number, place, args, returns, columns, nulls = given
        function = self._given.get(name)
        if function is None and place is not None and self._imports:
            function = _imported(name, place)
        if function is None:
            users = [key[1] for key, value in self._state.items() if key[0] == "view" and _calls(value, name)]
            used = f", which {', '.join(users)} use{'s' if len(users) == 1 else ''}," if users else ""
            raise OperationalError(
                f"function {name}{used} has to be given again",
                hint=f"kpg.connect(folder, functions={{{name!r}: ...}})",
            )
        self._engine.catalog.functions_made = number - 1
        returned = dict(returns) if isinstance(returns, tuple) else returns
        python_functions.create(self._engine, name, function, args, returned, columns=columns, nulls=nulls)
        made = self._engine.catalog.functions[name]
        self.function(str(made)).definition = made.definition

    def _functions_again(self) -> None:
        for key, value in self._state.items():
            if key[0] == "function" and key not in self._done and self._whole:
                self._function(key[1], value)
                self._done.add(key)
        folds = {name: made for name, made in self._functions.items() if name.partition("#")[0].endswith(")")}
        if folds:
            for name, made in folds.items():
                fold = routines.labelled_fold(self._engine, name.partition("#")[0])
                if fold is not None:
                    self._engine.folds.adopt(fold, made)

    def _goals_again(self) -> None:
        texts = [key[1] for key in self._state if key[0] == "goal"]
        if texts:
            dispatch.goals_again(self._engine, texts)

    def _relations_left(self) -> State:
        kinds = ("view", "program")
        return {key: value for key, value in self._state.items() if key[0] in kinds and key not in self._done}

    def _relations(self, waiting: State, *, all_of_them: bool) -> None:
        """Views and programs, each after what it uses; or as many of them as can be made."""
        while waiting:
            before = len(waiting)
            for key, value in list(waiting.items()):
                if key[0] == "view" and not self._ready(value[1]):
                    continue
                try:
                    if key[0] == "view":
                        self._view(value)
                    else:
                        self._program(key[1], value)
                except Error as error:
                    if not (all_of_them and self._whole):
                        self._forget(key)
                        del waiting[key]
                        if all_of_them:
                            self.left[key[1]] = error.message
                        continue
                    raise OperationalError(
                        f"{key[0]} {key[1]} cannot be made again: {error}",
                        hint="see the error that it came from",
                    ) from error
                self._done.add(key)
                del waiting[key]
            if len(waiting) == before:
                if not all_of_them:
                    return
                if not self._whole:
                    self.left.update((key[1], self._needs(value)) for key, value in waiting.items())
                    return
                name = next(iter(waiting))[1]
                raise OperationalError(f'"{name}" cannot be made again: something that it uses is missing')

    def _needs(self, value: Any) -> str:
        """Why a view cannot be there where nothing is imported."""
        for key, given in self._state.items():
            if key[0] == "function" and _calls(value, key[1]):
                return f"it calls {key[1]}, a function of {given[1] or 'no module'}"
        return "it reads what is left out"

    def _forget(self, key: Key) -> None:
        """Let what could not be made of a checkpoint be made later, by computing it."""
        engine = self._engine
        if key[0] == "view":
            name = self._state[key][0].name
            if name in engine.catalog:
                engine.catalog.remove(name)
            engine.views.followed.discard(name)

    def _ready(self, uses: tuple[str, ...]) -> bool:
        catalog, flows = self._engine.catalog, self._engine.dataflows
        functions = set(catalog.functions.values())
        return all(
            one in catalog
            or one in flows
            or one in functions
            or one == CLOCK
            or one.startswith("function ")
            or hasattr(one, "definition")
            for one in uses
        )

    def _view(self, value: tuple[Any, ...]) -> None:
        entry, uses, followed, kept = value
        if entry.of_system:
            entry = replace(entry, definition=asked_again(self._engine, entry.text))
        self._engine.views.restore(entry, frozenset(uses), kept, followed=followed)

    def _program(self, label: str, value: Any) -> None:
        dispatch.restored(self._engine, label, value, self._functor)

    def _functor(self, name: str, place: str) -> Any:
        found = self._given.get(name.lower())
        if found is not None:
            return found
        if not place or not self._imports:
            raise OperationalError(
                f"functor {name} has to be given again",
                hint=f"kpg.connect(folder, functions={{{name!r}: ...}})",
            )
        return _imported(name, place)


def _resolved(entry: TableEntry) -> TableEntry:
    for one in entry.constraints.foreign_keys:
        resolve(one, "target")
    return entry


def _calls(value: Any, name: str) -> bool:
    return any(used.partition("#")[0] == name for used in value[1] if "#" in used)


def _imported(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise OperationalError(
            f"function {name} cannot be imported from {place}: {error}",
            hint=f"make it importable, or give it: kpg.connect(folder, functions={{{name!r}: ...}})",
        ) from error
    return found


def _no_more(what: str) -> OperationalError:
    """The error for a definition of a kind that there is not any more."""
    return OperationalError(
        f"the folder has {what}: kpg has no such definitions any more",
        hint="drop it with the version of kpg that wrote the folder",
    )


def _routines(known: tuple[Routine | Removed, ...]) -> tuple[Routine, ...]:
    """The functions of a name, without those that computed an aggregate in earlier versions."""
    kept: list[Routine] = []
    for one in known:
        if isinstance(one, Routine):
            kept.append(one)
        elif not one.fields["name"].rpartition(".")[2].startswith(PREFIX):
            raise _no_more(f'{one.fields["kind"]} "{one.fields["name"]}", which is not one query')
    return tuple(kept)


def _with_results(aggregates: tuple[Aggregate, ...], state: State) -> tuple[Aggregate, ...]:
    """Aggregates with the types of their values, which earlier versions kept with the functions of these."""
    found = []
    for one in aggregates:
        folds = (each for each in state.get(("routine", one.fold), ()) if isinstance(each, Removed))
        given = next((each.fields["result"] for each in folds), None)
        found.append(replace(one, result=one.result or given))
    return tuple(found)


Words = NDArray[np.int64]
LOCK: Final = "lock"
MODES: Final = ("full", "normal", "off")
ROWS_AT_ONCE: Final = 1 << 22
"""So many rows are done again in one step."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a folder is to be opened: with ``functions``, views call these, and none that could be imported.

    Without ``whole``, nothing is imported either, and what would need it is left out.
    """

    synchronous: str = "full"
    read_only: bool = False
    functions: Mapping[str, Callable[..., Any]] | None = None
    whole: bool = True


def open_folder(engine: "Engine", folder: str | Path, **options: Any) -> dict[str, str]:
    """Have an engine be the database of a folder, which is made if it is not there; as ``Wanted`` says.

    What was left out, and why.
    """
    try:
        wanted = Wanted(**options)
        _check_wanted(str(folder), wanted)
        return _open_folder(engine, Path(folder), wanted)
    except BaseException:
        engine.close()
        raise


def _check_wanted(folder: str, wanted: Wanted) -> None:
    """Raise what a name or an option is refused with, before anything is made."""
    if not folder:
        raise OperationalError("a folder without a name cannot be opened", hint='kpg.connect("folder")')
    if folder == ":memory:":
        raise InterfaceError(f"{folder} is no folder", hint="kpg.connect() is a database in memory")
    if "://" in folder:
        raise InterfaceError(f"{folder} is no folder", hint="a Postgres driver connects to a server")
    if wanted.synchronous not in MODES:
        raise InterfaceError(
            f'there is no mode "{wanted.synchronous}"', hint=f"synchronous is one of {', '.join(MODES)}"
        )


def _open_folder(engine: "Engine", path: Path, wanted: Wanted) -> dict[str, str]:
    try:
        if not path.exists() and not wanted.read_only:
            make_folder(path)
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            raise OperationalError(f"{path} {what}", hint="a database is a folder")
    except OSError as error:
        raise _refused(str(path), error, "opened" if os.path.exists(path) else "made") from error
    except ValueError as error:  # a name that the system would not understand
        raise OperationalError(f"{path!r} cannot be opened: {error}") from error
    return open_files(engine, Disk(path), wanted)


def open_files(engine: "Engine", files: Files, wanted: Wanted) -> dict[str, str]:
    """As :func:`open_folder`, of any files."""
    lock: Lock | None = None
    try:
        _check(files, wanted)
        if not wanted.read_only:
            lock = _held(files)
        if wanted.read_only:
            files = Still(files)
        opening = _Opening(engine, files, wanted)
        opening.run(lock)
        return opening.restoring.left
    except BaseException as error:
        if lock is not None and engine.keeper is None:
            lock.release()
        if isinstance(error, OSError):
            raise _refused(files.where, error) from error
        raise


def _check(files: Files, wanted: Wanted) -> None:
    """Raise OperationalError for a folder of other things, before anything is written to it."""
    names = files.list()
    if wanted.read_only and "manifest" not in names:
        raise OperationalError(f"{files.where} is no database of kpg", hint="it has no manifest")
    others = [name for name in names if name != LOCK and not name.startswith(NEW)]
    if "manifest" not in names and set(others) - set(_first(names)):
        raise OperationalError(
            f"{files.where} is no database of kpg: it has other files, and no manifest",
            hint="give an empty folder, or one that is not there",
        )


def _first(names: Sequence[str]) -> list[str]:
    """The log that was made for a manifest that never came."""
    return [name for name in names if name == segment_name(1)]


def _held(files: Files) -> Lock:
    me = f"process {os.getpid()} on {socket.gethostname()}"
    lock = files.lock(LOCK, me)
    if lock == me:
        # A database that nobody has any more may wait to be collected.
        gc.collect()
        lock = files.lock(LOCK, me)
    if isinstance(lock, str):
        who = f"{lock}, which is this one" if lock == me else lock
        raise OperationalError(
            f"{files.where} is in use by {who}",
            hint="close it there first, or read it beside: connect(read_only=True), kpg sql --read-only",
        )
    return lock


def _refused(where: str, error: OSError, what: str = "opened") -> OperationalError:
    reason = error.strerror or str(error)
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "see to its permissions"
        with suppress(OSError):
            if Path(where, "manifest").exists():
                hint = f"read it by connect(read_only=True) or kpg sql --read-only, or {hint}"
    elif error.errno == errno.ENOENT and what == "opened":
        hint = "a file of the database is missing: restore a backup"
    if isinstance(error.filename, str) and Path(error.filename).name == error.filename not in (LOCK, where):
        where = f"{where}/{error.filename}"
    return OperationalError(f"{where} cannot be {what}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last segment, which place it has, where its records end and what number the next one has.

    ``unused`` are names of segments behind it that have none.
    """

    segment: Segment
    place: int
    end: int
    number: int
    unused: list[str]


class _Opening:
    """One opening. Everything is read before the engine changes: definitions are the last ones at once."""

    def __init__(self, engine: "Engine", files: Files, wanted: Wanted) -> None:
        self.engine = engine
        self.files = files
        self.wanted = wanted
        self.restoring = Restoring(engine, wanted.functions, whole=wanted.whole)
        self.codec: Codec = codec(self.restoring.function)
        self.state: State = {}
        self.commits: list[tuple[int, Any, Any, int]] = []
        self.epoch = 0
        self.synced = -1
        """The last record that is known to have been synced."""
        self.times = Times()
        self.before: State | None = None
        """The catalog of the checkpoint, if there is one."""
        self.size = self.strings = 0
        """Bytes of log behind it, and the strings that it and the checkpoint have."""

    def run(self, lock: Lock | None) -> None:
        mode = self.wanted.synchronous
        if not self.wanted.read_only:
            # What was renamed and removed before a kill is so now whatever happens.
            self.files.sync()
        keeper = Keeper(self.engine, self.files, lock, self.codec, mode)
        manifest = read_manifest(self.files)
        log: Log | None = None
        if manifest is None:
            log, manifest = self._create()
            log.proof = Proof.open(self.files, manifest.database, -1)
            checkpoints = self._checkpoints(keeper, manifest, lock)
        else:
            checkpoints = self.checkpoints = self._checkpoints(keeper, manifest, lock)
            # Before the log: beside a process that goes on with it, it must not say more than the log has.
            self.synced = read_proof(self.files, manifest.database)
            with collector_at_rest():
                if manifest.checkpoint is not None:
                    self.before = checkpoints.open(manifest.checkpoint)
                    self.state, self.epoch = dict(self.before), manifest.checkpoint.epoch
                last = self._read(manifest)
            self._again()
            checkpoints.opened()
            if not self.wanted.read_only:
                # What is damaged has been found by now, as far as that is needed: nothing was changed before.
                log = self._go_on(last, Proof.open(self.files, manifest.database, self.synced))
                checkpoints.tidy(manifest.segment)
            checkpoints.written(self.size)
        self.engine.keeper = keeper
        keeper.loose = checkpoints.loose
        keeper.begin(log, self.state, manifest.database, self.strings)
        if not self.wanted.read_only:
            keeper.use(checkpoints)
        if self.wanted.read_only:
            keeper.refuses = f"{self.files.where} was opened with read_only=True"

    def _checkpoints(self, keeper: Keeper, manifest: Manifest, lock: Lock | None) -> Checkpoints:
        release = (lambda: None) if lock is None else lock.release
        return Checkpoints(
            self.engine, self.files, self.codec, manifest.database, keeper.next_segment, release
        )

    def _create(self) -> tuple[Log, Manifest]:
        for name in _first(self.files.list()):
            self.files.remove(name)
        database = int.from_bytes(os.urandom(8), "little", signed=True)
        log = Log.create(self.files, 1, database, 1, direct=self._direct)
        manifest = Manifest(database, 1)
        try:
            write_beside(self.files, manifest)
            swap(self.files)
        except BaseException:
            log.close()
            raise
        return log, manifest

    @property
    def _direct(self) -> bool:
        """Whether the log is written past the system's memory: who waits for the disk has no use for it."""
        return self.wanted.synchronous == "full"

    # Reading

    def _read(self, manifest: Manifest) -> "_Last":
        """Read all segments; where the last one ends."""
        numbers = [segment_number(name) for name in self.files.list()]
        found = sorted(one for one in numbers if one is not None and one >= manifest.segment)
        if found[:1] != [manifest.segment] or found != list(
            range(manifest.segment, manifest.segment + len(found))
        ):
            missing = next(
                n for n in range(manifest.segment, manifest.segment + len(found) + 1) if n not in found
            )
            raise DamagedError(
                f"{self.files.where}/{segment_name(missing)} is missing", hint="restore a backup"
            )
        segments = [Segment(self.files, number, manifest.database) for number in found]
        begun, unused = self._begun(segments)
        end, number = HEADER_BYTES, segments[0].first
        whole = number
        for place, segment in zip(found, segments, strict=False):
            end, ahead = HEADER_BYTES, list[Any]()
            if segment.empty:
                raise DamagedError(f"{segment.where} is damaged at byte 0: it has no header")
            if segment.first != number:
                raise DamagedError(f"{segment.where} does not follow the segment before it")
            for record in segment.records():
                whole = record.number + 1
                if record.kind in (ROWS, COMMIT):
                    self.size += record.end - record.start
                if record.kind == ROWS:
                    ahead += self.codec.decode(record.payload)
                    continue
                end, number = record.end, record.number + 1
                if record.kind == COMMIT:
                    value = self.codec.decode(record.payload)
                    self._note(value, ahead, place, f"{segment.where} is damaged at byte {record.start}")
                    ahead = []
        if begun > number:
            raise damage_at(segments[-1], end, f"records up to {begun - 1} are missing")
        if self.synced >= whole:
            lost = records_between(whole, self.synced)
            raise damage_at(segments[-1], end, f"{lost} had been synced, and cannot be read any more")
        return _Last(segments[-1], found[len(segments) - 1], end, number, unused)

    def _begun(self, segments: list[Segment]) -> tuple[int, list[str]]:
        """Leave out segments at the end that have no record; what would have been the first, and their names.

        They may have been made in part, and nobody has seen to their names outliving a power cut.
        """
        first, names = 0, list[str]()
        while len(segments) > 1 and (segments[-1].empty or next(segments[-1].records(), None) is None):
            gone = segments.pop()
            first = max(first, gone.first)
            names.append(gone.name)
        return first, names

    def _go_on(self, last: "_Last", proof: Proof) -> Log:
        """Have the last segment go on where its records end."""
        for name in last.unused:
            self.files.remove(name)
            self.files.sync()
        return Log.resume(
            *(self.files, last.segment, last.place, last.end, last.number), direct=self._direct, proof=proof
        )

    def _note(self, value: Any, ahead: list[Any], segment: int, damaged: str) -> None:
        try:
            epoch, strings, rows, (gone, now), moment = value
            found = Changes(gone, now)
            self.times.note(epoch, moment, self.state, found, len(self.commits))
            found.onto(self.state)
        except (TypeError, ValueError) as error:
            raise DamagedError(f"{damaged}: it has no commit there") from error
        self.commits.append((epoch, strings, [*ahead, *rows], segment))
        self.epoch = epoch

    # Doing it again

    def _again(self) -> None:
        engine, restoring = self.engine, self.restoring
        for _, strings, _, segment in self.commits:
            if strings is not None:  # before rows that workers have written bring theirs
                intern(engine, *self._strings(segment, *strings))
        self.strings = len(engine.executor.dictionary)
        with collector_at_rest():
            restoring.begin(self.state)
            if self.before is not None:
                restoring.restore(self.before)
        waiting = 0
        finished = False
        computed: list[str] = []
        commits = counted(self.commits, f"opening {self.files.where}", "commits")
        for place, (epoch, _, rows, segment) in enumerate(commits):
            for one in rows:
                waiting += self._replay(segment, *one)
            # With history, views are there from the last definition on, to know what has changed since.
            finished = finished or (engine.past is not None and place == self.times.defined)
            if waiting > ROWS_AT_ONCE or (finished and place == self.times.defined):
                engine.executor.replayed(epoch)
                waiting = 0
            if finished and place == self.times.defined:
                computed = engine.executor.restored()
                restoring.finish()
        engine.executor.replayed(self.epoch)
        if self.commits and not finished:
            # What the checkpoint has and nobody has asked for is as of then: it lacks what was done again.
            computed = engine.executor.restored()
        self.commits.clear()
        if not finished:
            restoring.finish()
        computed += engine.executor.restored()
        if computed and self.before is not None:
            import logging  # lazy: the start does without it

            logging.getLogger("kpg").info(
                "%s: not in the checkpoint, so computed: %s", self.files.where, ", ".join(computed)
            )
        self.times.tell(engine, restoring.tables)
        self.state.pop(("extra", PAST), None)  # which only checkpoints have

    def _strings(self, segment: int, first: int, *told: Any) -> tuple[int, Words, Bytes]:
        if isinstance(told[0], PlacedStrings):
            offsets, arena = self.checkpoints.strings(told[0], segment)
            return first, offsets[first:] - offsets[first], arena[offsets[first] :]
        bounds, data = told
        return first, bounds, data

    def _replay(self, segment: int, epoch: int, number: int, gone: Any, came: Any, words: Any) -> int:
        name = self.restoring.tables.get(number)
        if name is None:
            return 0
        if isinstance(words, Sharded):
            self.checkpoints.sharded(words, segment)
            self.engine.executor.replay_shards(epoch, name, came[0], words)
            return words.rows
        rowids = rowids_of(came)
        count = rowids.shape[0]
        if isinstance(words, Placed):
            contents = self.checkpoints.placed(words, number, segment)[:, :count]
        else:
            width = self.restoring.widths[number]
            contents = np.empty((width, 0), np.int64) if words is None else unpack(words, count)
        self.engine.executor.replay(epoch, name, rowids_of(gone), rowids, contents)
        return count
