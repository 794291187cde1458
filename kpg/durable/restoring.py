"""A database's definitions from its state: tables before their rows, views after them."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kpg.compiler.catalog.constraints import Heir, UniqueIndex
from kpg.compiler.catalog.entries import CLOCK, CLOCK_SCHEMA, PUBLIC, TableEntry
from kpg.compiler.catalog.qualified_names import resolve
from kpg.compiler.catalog.routines import Aggregate, Routine
from kpg.compiler.sql.bind.user_aggregates import PREFIX
from kpg.durable.known import Removed
from kpg.durable.state import Key, State
from kpg.runtime.errors import Error, OperationalError
from kpg.runtime.scalar import Named
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


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
                    engine.adopt_table(value[1])
                    self._done.add(key)
        self._functions_again()
        same = {key: value for key, value in self._relations_left().items() if before.get(key) == value}
        self._relations(same, all_of_them=False)

    def finish(self) -> None:
        """Make the rest, now that rows are there."""
        engine, state = self._engine, self._state
        for key, value in state.items():
            if key[0] == "table" and key not in self._done:
                engine.adopt_table(value[1])
        indexed = any(isinstance(value, UniqueIndex) for value in state.values())
        if indexed or any(key[0] == "table" and value[1].constraints.guarded for key, value in state.items()):
            engine.refresh_rules()
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
        from kpg.ddl.indexes import install

        if index.columns:
            install(self._engine, index)

    def _function(self, name: str, given: Any) -> None:
        from kpg.ddl.functions import create

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
        create(self._engine, name, function, args, returned, columns=columns, nulls=nulls)
        made = self._engine.catalog.functions[name]
        self.function(str(made)).definition = made.definition

    def _functions_again(self) -> None:
        for key, value in self._state.items():
            if key[0] == "function" and key not in self._done and self._whole:
                self._function(key[1], value)
                self._done.add(key)
        folds = {name: made for name, made in self._functions.items() if name.partition("#")[0].endswith(")")}
        if folds:
            from kpg.ddl.aggregates import labelled_fold

            for name, made in folds.items():
                fold = labelled_fold(self._engine, name.partition("#")[0])
                if fold is not None:
                    self._engine.folds.adopt(fold, made)

    def _goals_again(self) -> None:
        texts = [key[1] for key in self._state if key[0] == "goal"]
        if texts:
            from kpg.datalog.restoring import goals_again

            goals_again(self._engine, texts)

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
            engine.followed.discard(name)

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
            from kpg.ddl.viewing import asked_again

            entry = replace(entry, definition=asked_again(self._engine, entry.text))
        self._engine.restore_view(entry, frozenset(uses), kept, followed=followed)

    def _program(self, label: str, value: Any) -> None:
        from kpg.datalog.restoring import restored

        restored(self._engine, label, value, self._functor)

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
