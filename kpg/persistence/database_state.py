"""Persistent state of a database apart from rows: entries by kind and name, and their changes per commit.

An entry is a value that the codec encodes. State of a session is excluded, in particular temporary tables.
``codec`` lists the classes that may occur in a database's files; no other class is decoded. ``Times`` records
the moment of each epoch in the log, and since when each table has had its present definition.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kpg.compiler.algebra import rel
from kpg.compiler.catalog import access_control, constraints, entries, privileges, routines
from kpg.compiler.catalog.cache import Noted
from kpg.compiler.catalog.entries import CLOCK, TEMPORARY, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Rights
from kpg.runtime import scalar, types
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import nodes
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.storage.codec import Codec, Custom
from kpg.runtime.storage.packs import Placed, PlacedStrings, Shard, Sharded

if TYPE_CHECKING:
    from kpg.datalog import Program
    from kpg.session.engine import Engine


Key = tuple[str, ...]
PAST = "past"
"""The extra of checkpoints that has the moments of epochs."""
State = dict[Key, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """From one state to the next: entries that are gone, then those that are new or others."""

    gone: tuple[Key, ...]
    now: tuple[tuple[Key, Any], ...]

    def __bool__(self) -> bool:
        return bool(self.gone or self.now)

    @property
    def plain(self) -> tuple[Any, ...]:
        """As a record of the log has it."""
        return self.gone, self.now

    def onto(self, state: State) -> None:
        """Have a state become the next."""
        for key in self.gone:
            state.pop(key, None)
        state.update(self.now)


def changes(before: State, after: State) -> Changes:
    """What leads from one state to another."""
    gone = tuple(key for key in before if key not in after)
    now = ((key, value) for key, value in after.items() if key not in before or before[key] != value)
    return Changes(gone, tuple(now))


class Watch:
    """Whether anything may have changed since the last time: dicts of which there may be much have versions,

    others are compared.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._seen: tuple[Any, ...] = ()

    def _parts(self) -> tuple[Any, ...]:
        engine, catalog = self._engine, self._engine.catalog
        numbers = engine.sequences.next if engine.used_sequences is not None else {}
        named = (catalog.sequences, catalog.schemas, catalog.comments, catalog.indexes, catalog.types)
        more = (
            catalog.routines,
            catalog.others,
            engine.views,
            engine.dataflows,
            engine.extras,
            engine.goals,
        )
        rights = catalog.rights
        owned = (rights.roles, rights.owners, rights.lists, rights.defaults)
        parts = (*named, *more, *owned, engine.functions_given, numbers)
        counted = (catalog.version, engine.clock.kept, engine.clock.given, frozenset(engine.views.keeping))
        return (*(one.version if isinstance(one, Noted) else one for one in parts), counted)

    def differs(self) -> bool:
        """Whether there may be a change that :meth:`note` has not seen."""
        return self._seen != self._parts()

    def note(self) -> None:
        """What is now is known."""
        self._seen = tuple(dict(one) if isinstance(one, dict) else one for one in self._parts())


def state_of(engine: "Engine") -> State:
    """Everything that is to be there when the database is opened again."""
    catalog = engine.catalog
    made = (catalog.functions_made, engine.dataflows_made, engine.executor.tables_made)
    state: State = {("made",): made}
    state.update(
        (("schema", key), name) for key, name in catalog.schemas.items() if not key.startswith(TEMPORARY)
    )
    state.update((("type", key), type_) for key, type_ in catalog.types.items())
    state.update((("routine", key), routine) for key, routine in catalog.routines.items())
    state.update((("other", *key), one) for key, one in catalog.others.items())
    state.update((("function", name), given) for name, given in engine.functions_given.items())
    passing = _passing(engine)
    left_out = passing | _made(engine)
    for entry in catalog:
        if entry.name in left_out:
            continue
        if isinstance(entry, TableEntry):
            number = engine.executor.table_number(entry.name)
            state["table", entry.name.lower()] = (number, entry)
        else:
            state["view", entry.name.lower()] = _view(engine, entry)
    for program in programs(engine):
        from kpg.datalog.dispatch import told  # lazy: Datalog loads on first use

        state["program", program.label] = told(program)
    state.update(_small(engine, passing))
    return state


def _small(engine: "Engine", passing: set[str]) -> Iterator[tuple[Key, Any]]:
    catalog = engine.catalog
    for key, sequence in catalog.sequences.items():
        if not key.startswith(TEMPORARY):
            yield ("sequence", key), sequence
    if engine.used_sequences is not None:
        for name, number in engine.sequences.next.items():
            if not name.startswith(TEMPORARY) and name.lower() in catalog.sequences:
                yield ("number", name.lower()), number
    for key, index in catalog.indexes.items():
        if index.table not in passing:
            yield ("index", key), index
    lower = {name.lower() for name in passing}
    for comment, text in catalog.comments.items():
        if len(comment) < 2 or comment[1] not in lower:
            yield ("comment", *comment), text
    yield from _rights(catalog.rights, lower)
    if engine.clock.kept or engine.clock.given is not None:
        clock = engine.executor.table_number(CLOCK) if engine.clock.kept else None
        yield ("clock",), (clock, engine.clock.given)
    for text in engine.goals:
        yield ("goal", text), True
    for name, value in engine.extras.items():
        yield ("extra", name), value


def _rights(rights: Rights, left_out: set[str]) -> Iterator[tuple[Key, Any]]:
    for name, role in rights.roles.items():
        yield ("role", name), role
    for key, owner in rights.owners.items():
        if key[1] not in left_out:
            yield ("owner", *key), owner
    for key, items in rights.lists.items():
        if key[1] not in left_out:
            yield ("list", *key), items
    for key, items in rights.defaults.items():
        yield ("default", *key), items


def programs(engine: "Engine") -> "list[Program]":
    """The Datalog programs that have a text."""
    if not engine.dataflows:
        return []
    from kpg.datalog import Program  # lazy: Datalog loads on first use

    return [one for one in engine.dataflows.values() if isinstance(one, Program) and one.texts]


def is_temporary(name: str) -> bool:
    """Whether a relation is one of a session's."""
    return name.startswith(TEMPORARY) and "." in name


def _passing(engine: "Engine") -> set[str]:
    """Relations that end with the statement or the session."""
    used = engine.views.used()
    temporary = [entry.name for entry in engine.catalog if is_temporary(entry.name)]
    found = {name for name in engine.tables.attached if name not in used} | set(temporary)
    for name in temporary:
        found.update(engine.views.dependents(name))
    return found


def _made(engine: "Engine") -> set[str]:
    """Relations that a program makes again."""
    return {
        entry.name
        for entry in engine.catalog
        if isinstance(entry, ViewEntry)
        and not entry.of_system
        and (entry.definition is None or callable(entry.definition))
    }


def _view(engine: "Engine", entry: ViewEntry) -> tuple[Any, ...]:
    """A view: its entry, what it uses, whether its text has been left behind, and how it is kept if it is."""
    uses = tuple(sorted(engine.views.used_by(entry.name)))
    kept: tuple[Any, ...] | None = None
    maintained = engine.views.get(entry.name)
    keeping = engine.views.keeping.get(entry.name)
    if keeping is not None:  # as it is once the commit has installed it
        entry = replace(entry, materialized=keeping.materialized)
    if keeping is not None and not engine.views.is_overlay(entry.name):
        kept = ()
    elif maintained is not None:
        reader = maintained.reader
        kept = (engine.views.plan_of(entry.name), reader.names, reader.types, reader.order)
    if entry.of_system:  # its text says what it is
        entry = replace(entry, definition=None)
    return entry, uses, entry.name in engine.views.followed, kept


DEFINING: Final = frozenset(("view", "function", "routine", "type", "program", "index"))


class Times:
    """What the commits of a log say of it, in their order."""

    def __init__(self) -> None:
        self.defined = -1
        """The place of the last commit that defined something, new tables apart."""
        self._moments: list[tuple[int, int]] = []
        self._facts: dict[int, object] = {}
        self._begun: dict[int, int] = {}

    def note(self, epoch: int, moment: int, before: State, found: Changes, place: int) -> None:
        """Take note of a commit, what the state was before and what is other since."""
        self._moments.append((epoch, moment))
        for key in (*found.gone, *(key for key, _ in found.now)):
            if key[:2] == ("other", "inherits") and ("table", key[3]) in before:
                parent = before.get(("table", key[2]))
                if parent is not None:
                    self._begun[parent[0]] = epoch
        for key, value in found.now:
            if key[0] in DEFINING:
                self.defined = place
            elif key[0] == "table":
                self._note_table(value, before.get(key), epoch, place)

    def _note_table(self, entry: Any, known: Any, epoch: int, place: int) -> None:
        number = entry[0]
        if known is not None and known[0] == number:
            self._facts.setdefault(number, _facts(known))
        if number in self._facts:
            self.defined = place
        if self._facts.get(number) != _facts(entry):
            self._facts[number] = _facts(entry)
            self._begun[number] = epoch

    def tell(self, engine: "Engine", tables: Mapping[int, str]) -> None:
        """Have the past of a database that is opened be what it was, if one is kept."""
        told = engine.extras.pop(PAST, None)
        if engine.past is None:
            engine.executor.drop_past()
            return
        for number, epoch in self._begun.items():
            if number in tables:
                engine.executor.known_from(tables[number], epoch)
        engine.past.learn(told if isinstance(told, bytes) else None, self._moments)


def _facts(entry: Any) -> object:
    """What plans take for true of the rows of a table."""
    schema = entry[1].schema
    return schema.primary_key, schema.types, tuple(column.nullable for column in schema.columns)


CLASSES: Final[dict[str, tuple[ModuleType, str]]] = {
    "catalog": (entries, "TableEntry ViewEntry"),
    "rule": (constraints, "Rule Check Unique ForeignKey Index UniqueIndex Constraints Domain Sequence"),
    "rel": (
        rel,
        """Get Constant LocalGet Map Filter Project Join AggregateCall Reduce OrderBy RowCall Expand
        TopK Window Distinct Threshold Negate Union Single Let LetRec""",
    ),
    "routine": (routines, "Parameter Routine Aggregate Chosen"),
    "trigger": (constraints, "Heir Partitioned Bound"),
    "security": (access_control, "Policy Secured Demand"),
    "right": (privileges, "Asker Membership Role Attributes Item"),
    "scalar": (scalar, "Column Literal Call If Fetch"),
    "type": (types, "Kind Type ColumnDef Schema"),
    "plan": (
        nodes,
        """Mfp Source Import Constant Linear Concat Negate Arrange Delta HalfJoin DeltaJoin RangeJoin
        Aggregate Reduce Distinct Threshold Expand TopK BasicAggregate BasicReduce Window Fold
        Single Enter Variable Loop Leave Plan""",
    ),
    "ego": (nodes, "EgoFamily EgoCall Ego"),
    "window": (nodes, "Unit Edge Exclude Bound Ranged Frame WindowCall"),
}
"""Names of enums and frozen dataclasses by the prefix of their keys, and the module that declares them.

A key is part of the file format: a class keeps its prefix when it moves to another module.
"""
MORE: Final[dict[str, type]] = {
    "span": Span,
    "direction": Direction,
    "expansion": Expansion,
    "placed": Placed,
    "strings": PlacedStrings,
    "shard": Shard,
    "sharded": Sharded,
}


class Removed:
    """A definition of a kind that kpg has no more, as an earlier version has written it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields


class Exclusion:
    """EXCLUDE, or a unique index over expressions, as earlier versions have written both."""

    def __new__(cls, **fields: Any) -> Any:
        """The unique index, if it is one."""
        if not fields.pop("index"):
            return Removed(**fields)
        del fields["operators"]
        return constraints.UniqueIndex(**fields)


class EarlierRoutine:
    """A function, which has had more fields: its language, and whether its body was run for each call."""

    def __new__(cls, **fields: Any) -> Any:
        """The function, if its body is one query that is put in the place of calls."""
        left = {name: fields.pop(name) for name in ("language", "kind", "runs", "pure") if name in fields}
        is_query = left.get("language", "sql") == "sql" and left.get("kind", "function") == "function"
        if left.get("runs") or not is_query:
            return Removed(**fields, **left)
        return routines.Routine(**fields)


EARLIER: Final[dict[str, type]] = {
    "trigger.Deed": Removed,
    "trigger.Trigger": Removed,
    "routine.Routine": EarlierRoutine,
    "rule.Exclusion": Exclusion,
}
"""Classes that are read and never written, by the names that earlier versions gave them."""


def codec(function: Callable[[str], Any]) -> Codec:
    """How values are written; ``function`` gives the users' function of a name that carries one."""
    made = Codec(custom=(Custom("function", Named, str, function),))
    for prefix, (module, names) in CLASSES.items():
        for name in names.split():
            made.add(getattr(module, name), f"{prefix}.{name}")
    for name, known in MORE.items():
        made.add(known, name)
    made.by_name.update(EARLIER)
    return made
