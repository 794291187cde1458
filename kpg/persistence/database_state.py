"""Persistent state apart from rows: entries by kind and name, and their changes per commit.

An entry is a value that the codec encodes. The state of a session is excluded, in particular
temporary tables. ``make_codec`` lists the classes that may occur in a database's files; no other
class is decoded. ``RecoveredHistory`` collects the time of each epoch in the log, and the epoch
since which each table has its present definition.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kpg.compiler.algebra import rel
from kpg.compiler.catalog import access_control, constraints, entries, privileges, routines
from kpg.compiler.catalog.entries import CLOCK, TEMPORARY, Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Privileges
from kpg.runtime import scalar, types
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan import nodes
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.storage.codec import Codec, Custom
from kpg.runtime.storage.packs import Placed, PlacedStrings, Shard, Sharded

if TYPE_CHECKING:
    from kpg import datalog
    from kpg.datalog import Program
    from kpg.datalog import dispatch as datalog_dispatch
    from kpg.session.engine import Engine
else:
    datalog = LazyModule("kpg.datalog")
    datalog_dispatch = LazyModule("kpg.datalog.dispatch")


Key = tuple[str, ...]
HISTORY_ENTRY = "past"
"""The extra entry of checkpoints with the times of epochs."""
State = dict[Key, Any]
"""Entries by kind and name."""


@dataclass(frozen=True, slots=True)
class StateChanges:
    """The difference between two states: removed entries, then new or changed ones."""

    removed: tuple[Key, ...]
    updated: tuple[tuple[Key, Any], ...]

    def __bool__(self) -> bool:
        return bool(self.removed or self.updated)

    @property
    def as_record(self) -> tuple[Any, ...]:
        """The changes as a log record stores them."""
        return self.removed, self.updated

    def apply_to(self, state: State) -> None:
        """Apply the changes to a state in place."""
        for key in self.removed:
            state.pop(key, None)
        state.update(self.updated)


def diff_states(before: State, after: State) -> StateChanges:
    """Return the changes from one state to another."""
    removed = tuple(key for key in before if key not in after)
    updated = ((key, value) for key, value in after.items() if key not in before or before[key] != value)
    return StateChanges(removed, tuple(updated))


class ChangeDetector:
    """Detects whether the persistent state may have changed.

    The catalog has a version; other parts are compared.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._recorded: tuple[Any, ...] = ()

    def _parts(self) -> tuple[Any, ...]:
        engine, catalog = self._engine, self._engine.catalog
        numbers = engine.sequences.next if engine.used_sequences is not None else {}
        engine_dicts = (engine.views, engine.dataflows, engine.extras, engine.goals, engine.function_records)
        counters = (
            catalog.version,
            engine.clock.has_row,
            engine.clock.advanced_time,
            frozenset(engine.views.pending),
        )
        return (*engine_dicts, numbers, counters)

    def may_differ(self) -> bool:
        """Return whether the state may have changed since :meth:`mark_recorded`."""
        return self._recorded != self._parts()

    def mark_recorded(self) -> None:
        """Mark the present state as recorded."""
        self._recorded = tuple(dict(part) if isinstance(part, dict) else part for part in self._parts())


def capture_state(engine: "Engine") -> State:
    """Return the persistent state of a database, except rows."""
    catalog = engine.catalog
    counters = (catalog.function_count, engine.dataflows_made, engine.executor.tables.last_table_number)
    state: State = {("made",): counters}
    state.update(
        (("schema", key), name) for key, name in catalog.schemas.items() if not key.startswith(TEMPORARY)
    )
    state.update((("type", key), type_) for key, type_ in catalog.types.items())
    state.update((("extension", name), version) for name, version in catalog.extensions.items())
    state.update((("routine", key), routine) for key, routine in catalog.routines.items())
    state.update(_table_objects(catalog))
    state.update((("function", name), function) for name, function in engine.function_records.items())
    transient = _transient_relations(engine)
    excluded = transient | _program_views(engine)
    for entry in catalog:
        if entry.name in excluded:
            continue
        if isinstance(entry, TableEntry):
            number = engine.executor.tables.table_number(entry.name)
            state["table", entry.name.lower()] = (number, entry)
        else:
            state["view", entry.name.lower()] = _view_state(engine, entry)
    for program in stored_programs(engine):
        state["program", program.label] = datalog_dispatch.stored_program(program)
    state.update(_other_entries(engine, transient))
    return state


def _table_objects(catalog: Catalog) -> Iterator[tuple[Key, Any]]:
    """Yield aggregates, policies, partitions and unique indexes. The names of kinds are in the format."""
    for name, aggregates in catalog.aggregates.items():
        yield ("other", "aggregate", name, ""), aggregates
    for key, policy in catalog.policies.items():
        yield ("other", "policy", *key), policy
    for table, secured in catalog.row_security.items():
        yield ("other", "secured", table, ""), secured
    for child, partition in catalog.partitions.items():
        yield ("other", "inherits", partition.parent.lower(), child), partition
    for table, partitioned in catalog.partitioned.items():
        yield ("other", "partitioned", table, ""), partitioned
    for key, index in catalog.unique_indexes.items():
        yield ("other", "unique index", *key), index


def _other_entries(engine: "Engine", transient: set[str]) -> Iterator[tuple[Key, Any]]:
    catalog = engine.catalog
    for key, sequence in catalog.sequences.items():
        if not key.startswith(TEMPORARY):
            yield ("sequence", key), sequence
    if engine.used_sequences is not None:
        for name, number in engine.sequences.next.items():
            if not name.startswith(TEMPORARY) and name.lower() in catalog.sequences:
                yield ("number", name.lower()), number
    for key, index in catalog.indexes.items():
        if index.table not in transient:
            yield ("index", key), index
    lower = {name.lower() for name in transient}
    for comment, text in catalog.comments.items():
        if len(comment) < 2 or comment[1] not in lower:
            yield ("comment", *comment), text
    yield from _privilege_entries(catalog.privileges, lower)
    if engine.clock.has_row or engine.clock.advanced_time is not None:
        clock = engine.executor.tables.table_number(CLOCK) if engine.clock.has_row else None
        yield ("clock",), (clock, engine.clock.advanced_time)
    for text in engine.goals:
        yield ("goal", text), True
    for name, value in engine.extras.items():
        yield ("extra", name), value


def _privilege_entries(rights: Privileges, excluded: set[str]) -> Iterator[tuple[Key, Any]]:
    for name, role in rights.roles.items():
        yield ("role", name), role
    for key, owner in rights.owners.items():
        if key[1] not in excluded:
            yield ("owner", *key), owner
    for key, items in rights.acls.items():
        if key[1] not in excluded:
            yield ("list", *key), items
    for key, items in rights.default_acls.items():
        yield ("default", *key), items


def stored_programs(engine: "Engine") -> "list[Program]":
    """Return the Datalog programs that have a text."""
    if not engine.dataflows:
        return []

    return [
        program
        for program in engine.dataflows.values()
        if isinstance(program, datalog.Program) and program.texts
    ]


def is_temporary(name: str) -> bool:
    """Return whether a relation is a session's temporary relation."""
    return name.startswith(TEMPORARY) and "." in name


def _transient_relations(engine: "Engine") -> set[str]:
    """Return the relations that end with the statement or the session."""
    used = engine.views.all_reads()
    temporary = [entry.name for entry in engine.catalog if is_temporary(entry.name)]
    transient = {name for name in engine.tables.attached_tables if name not in used} | set(temporary)
    for name in temporary:
        transient.update(engine.views.dependents(name))
    return transient


def _program_views(engine: "Engine") -> set[str]:
    """Return the views that programs create when they are reinstalled."""
    return {
        entry.name
        for entry in engine.catalog
        if isinstance(entry, ViewEntry)
        and not entry.of_system
        and (entry.definition is None or callable(entry.definition))
    }


def _view_state(engine: "Engine", entry: ViewEntry) -> tuple[Any, ...]:
    """Return a view's entry, its dependencies, whether its text is stale, and its materialization.

    The materialization is None, or the plan with the reader's names, types and order. It is empty if
    the view is materialized by the current commit.
    """
    uses = tuple(sorted(engine.views.reads_of(entry.name)))
    materialization: tuple[Any, ...] | None = None
    maintained = engine.views.get(entry.name)
    keeping = engine.views.pending.get(entry.name)
    if keeping is not None:  # the state after the commit has installed it
        entry = replace(entry, materialized=keeping.materialized)
    if keeping is not None and not engine.views.is_ego_view(entry.name):
        materialization = ()
    elif maintained is not None:
        reader = maintained.reader
        materialization = (engine.views.plan_of(entry.name), reader.names, reader.types, reader.order)
    if entry.of_system:  # its text defines it
        entry = replace(entry, definition=None)
    return entry, uses, entry.name in engine.views.stale_texts, materialization


DEFINITION_KINDS: Final = frozenset(("view", "function", "routine", "type", "program", "index"))
"""Kinds of entries whose commits define something."""


class RecoveredHistory:
    """Commit times and definitions, collected from a log in its order."""

    def __init__(self) -> None:
        self.last_definition = -1
        """Index of the last commit that defines something, except new tables; -1 if there is none."""
        self._commit_times: list[tuple[int, int]] = []
        self._table_facts: dict[int, object] = {}
        self._known_since: dict[int, int] = {}

    def add_commit(self, epoch: int, moment: int, before: State, changes: StateChanges, index: int) -> None:
        """Add a commit: the state before it, and its changes. ``index`` is its number in the log."""
        self._commit_times.append((epoch, moment))
        for key in (*changes.removed, *(key for key, _ in changes.updated)):
            if key[:2] == ("other", "inherits") and ("table", key[3]) in before:
                parent = before.get(("table", key[2]))
                if parent is not None:
                    self._known_since[parent[0]] = epoch
        for key, value in changes.updated:
            if key[0] in DEFINITION_KINDS:
                self.last_definition = index
            elif key[0] == "table":
                self._add_table(value, before.get(key), epoch, index)

    def _add_table(self, entry: Any, before: Any, epoch: int, index: int) -> None:
        number = entry[0]
        if before is not None and before[0] == number:
            self._table_facts.setdefault(number, _table_properties(before))
        if number in self._table_facts:
            self.last_definition = index
        if self._table_facts.get(number) != _table_properties(entry):
            self._table_facts[number] = _table_properties(entry)
            self._known_since[number] = epoch

    def restore(self, engine: "Engine", tables: Mapping[int, str]) -> None:
        """Restore the history of an opened database, if it keeps one."""
        encoded = engine.extras.pop(HISTORY_ENTRY, None)
        if engine.history is None:
            engine.executor.disable_history()
            return
        for number, epoch in self._known_since.items():
            if number in tables:
                engine.executor.tables.restart_history(tables[number], epoch)
        engine.history.restore(encoded if isinstance(encoded, bytes) else None, self._commit_times)


def _table_properties(entry: Any) -> object:
    """Return the properties of a table's rows that plans rely on."""
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
OTHER_CLASSES: Final[dict[str, type]] = {
    "span": Span,
    "direction": Direction,
    "expansion": Expansion,
    "placed": Placed,
    "strings": PlacedStrings,
    "shard": Shard,
    "sharded": Sharded,
}


class UnsupportedDefinition:
    """A definition of a kind that only earlier versions supported."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields


class LegacyExclusion:
    """EXCLUDE, or a unique index over expressions, as earlier versions stored both."""

    def __new__(cls, **fields: Any) -> Any:
        """Return the unique index, or an unsupported definition."""
        if not fields.pop("index"):
            return UnsupportedDefinition(**fields)
        del fields["operators"]
        return constraints.UniqueIndex(**fields)


class LegacyRoutine:
    """A function with the additional fields of earlier versions."""

    def __new__(cls, **fields: Any) -> Any:
        """Return the function if its body is one inlined query, or an unsupported definition."""
        legacy_fields = {
            name: fields.pop(name) for name in ("language", "kind", "runs", "pure") if name in fields
        }
        is_query = (
            legacy_fields.get("language", "sql") == "sql"
            and legacy_fields.get("kind", "function") == "function"
        )
        if legacy_fields.get("runs") or not is_query:
            return UnsupportedDefinition(**fields, **legacy_fields)
        return routines.Routine(**fields)


LEGACY_CLASSES: Final[dict[str, type]] = {
    "trigger.Deed": UnsupportedDefinition,
    "trigger.Trigger": UnsupportedDefinition,
    "routine.Routine": LegacyRoutine,
    "rule.Exclusion": LegacyExclusion,
}
"""Classes that are read but never written, by the names in earlier versions."""


def make_codec(function: Callable[[str], Any]) -> Codec:
    """Return the codec of a database's files. ``function`` returns the user function of an encoded name."""
    result = Codec(custom=(Custom("function", UserFunctionName, str, function),))
    for prefix, (module, names) in CLASSES.items():
        for name in names.split():
            result.add(getattr(module, name), f"{prefix}.{name}")
    for name, class_ in OTHER_CLASSES.items():
        result.add(class_, name)
    result.by_name.update(LEGACY_CLASSES)
    return result
