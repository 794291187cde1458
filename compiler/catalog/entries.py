"""The catalog: tables with their schemas and views with their plans, by case-insensitive name.

A comparison with ``now()`` in a view becomes a comparison with its clock, a relation of one row. Rows of the
view appear and disappear when that row changes.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.algebra.rel import Get, OrderBy, Rel
from kpg.compiler.catalog.constraints import (
    Constraints,
    Deparser,
    Domain,
    Heir,
    Index,
    Partitioned,
    Sequence,
    UniqueIndex,
    VerbatimDeparser,
)
from kpg.compiler.catalog.operations import CatalogOp, ObjectKind, Put
from kpg.compiler.catalog.privileges import (
    ACLS,
    BOOTSTRAP_ROLE,
    DEFAULT_ACLS,
    OWNERS,
    ROLES,
    Asker,
    Policy,
    Privileges,
    Secured,
)
from kpg.compiler.catalog.routines import Aggregate, ArrayFold, Routine
from kpg.compiler.qualified_names import (
    DEFAULT_SEARCH_PATH,
    PUBLIC_SEARCH_PATH,
    QualifiedName,
    effective_search_path,
    mark_qualified,
)
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import ROWID, TIMESTAMPTZ, ColumnDef, Kind, Schema, Type, record
from kpg.runtime.unsupported_features import unsupported_type_error
from kpg.runtime.values.styles import DEFAULT_STYLE, STYLE_SETTINGS, Style, style_of_settings

if TYPE_CHECKING:
    from kpg.runtime.functions.user_functions import UserFunction


NO_CONSTRAINTS = Constraints()
KEY_TABLE_PREFIX = "kpg_keys."
"""Prefix of the tables that store keys of unique indexes. The catalogs do not list them."""
PUBLIC = "public"
TEMPORARY = "pg_temp"
TYPE_NAMES_TO_SUGGEST = ("string", "text", "int", "float")
"""Type names that hints suggest, beside the names of kinds."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A base table."""

    name: str
    schema: Schema
    constraints: Constraints = NO_CONSTRAINTS

    def __post_init__(self) -> None:
        mark_qualified(self, "name")

    @property
    def primary_key(self) -> tuple[int, ...]:
        """Positions of the PRIMARY KEY, also of one that views on the table do not know."""
        names = self.schema.names
        late = (key.columns for key in self.constraints.uniques if key.late)
        return self.schema.primary_key or tuple(names.index(name) for name in next(late, ()))


def select_all(name: str) -> str:
    """Return a query for all rows of a relation."""
    quoted = name.replace('"', '""')
    return f'SELECT * FROM "{quoted}"'


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view. A materialized view is read by name; any other is expanded to ``rel``.

    ``definition`` may be a function that returns the same plan on every call. It is None if unknown.
    """

    name: str
    schema: Schema
    definition: Rel | Callable[[], Rel] | None
    sql: str = ""
    materialized: bool = False
    order: tuple[OrderBy, ...] = ()
    keys: tuple[tuple[int, ...], ...] | None = None
    """Unique column sets; None if they are derived from the plan."""
    checked: bool = False
    """Whether the view has WITH CHECK OPTION."""
    local: bool = False
    """Whether the check option is LOCAL: only the view's own conditions are checked."""
    defaults: tuple[tuple[str, str], ...] = ()
    """DEFAULTs of columns by lower-case name. They precede the table's."""
    below: str = ""
    """The single view that this view selects from, or ""."""
    of_system: bool = False  # whether it reads system relations: it is planned anew each time
    invoker: bool = False  # SECURITY INVOKER: it reads with the privileges of the current user
    whole: str = ""  # ``sql`` with qualified names, if they differ

    def __post_init__(self) -> None:
        mark_qualified(self, "name", "below")

    @property
    def rel(self) -> Rel | None:
        """The view's plan; None if it is not known."""
        return self.definition() if callable(self.definition) else self.definition

    @property
    def text(self) -> str:
        """The stored query with qualified names; ``sql`` is the original text."""
        return self.whole or self.sql

    @property
    def is_derived(self) -> bool:
        """Whether it is a relation of a Datalog program, whose rules are stored elsewhere."""
        return self.sql == select_all(self.name)


Entry = TableEntry | ViewEntry

RELATIONS: Final = ObjectKind[str, Entry]("entries")
FUNCTIONS: Final = ObjectKind[str, "UserFunctionName[UserFunction]"]("functions")
SEQUENCES: Final = ObjectKind[str, Sequence]("sequences")
SCHEMAS: Final = ObjectKind[str, str]("schemas")
COMMENTS: Final = ObjectKind[tuple[str, ...], str]("comments")
INDEXES: Final = ObjectKind[str, Index]("indexes")
TYPES: Final = ObjectKind[str, Type | Domain]("types")
ROUTINES: Final = ObjectKind[str, tuple[Routine, ...]]("routines")
AGGREGATES: Final = ObjectKind[str, tuple[Aggregate, ...]]("aggregates")
POLICIES: Final = ObjectKind[tuple[str, str], Policy]("policies")
ROW_SECURITY: Final = ObjectKind[str, Secured]("row_security")
PARTITIONS: Final = ObjectKind[str, Heir]("partitions")
PARTITIONED: Final = ObjectKind[str, Partitioned]("partitioned")
UNIQUE_INDEXES: Final = ObjectKind[tuple[str, str], UniqueIndex]("unique_indexes")
EXTENSIONS: Final = ObjectKind[str, str]("extensions")
DEPENDENCIES: Final = ObjectKind[str, frozenset[str]]("dependencies", affects_plans=False)
STALE_TEXTS: Final = ObjectKind[str, bool]("stale_texts", affects_plans=False)
KINDS: Final[tuple[ObjectKind[Any, Any], ...]] = (
    *(RELATIONS, SEQUENCES, SCHEMAS, COMMENTS, INDEXES, TYPES, ROUTINES, AGGREGATES, POLICIES, ROW_SECURITY),
    *(PARTITIONS, PARTITIONED, UNIQUE_INDEXES, EXTENSIONS, DEPENDENCIES, STALE_TEXTS),
    *(ROLES, OWNERS, ACLS, DEFAULT_ACLS),
)
"""The kinds of objects that take part in transactions. Python functions do not."""
CatalogSnapshot = tuple[Mapping[Any, Any], ...]
"""The objects of a catalog at some moment: the mapping of each of ``KINDS``."""
_OBJECTS: Final = attrgetter(*(kind.mapping for kind in KINDS))


MAX_ENTRIES: Final = 256
"""Values that the catalog query cache holds. The least recently used one is evicted."""
SessionRows = dict[str, tuple[tuple[int | str | None, ...], ...]]
"""Session rows that an entry read, by kind."""


class CatalogCache:
    """Catalog query cache: rows of system relations, and results of queries over them alone.

    Tools read the system catalogs repeatedly, and rebuilding the rows costs far more than checking that
    nothing changed. A value is valid for one snapshot of the catalog, and while the session state that it
    read is equal.
    """

    __slots__ = ("_seen", "_values")

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._values: OrderedDict[Hashable, tuple[Any, SessionRows]] = OrderedDict()

    def get(self, catalog: "Catalog", key: Hashable) -> Any:
        """Return the value of a key; None if there is none or it may be stale."""
        if self._seen != catalog.snapshot():
            self._values.clear()
            return None
        found = self._values.get(key)
        if found is None:
            return None
        value, told = found
        if any(tuple(catalog.system_reads.session_rows(kind)) != rows for kind, rows in told.items()):
            del self._values[key]
            return None
        self._values.move_to_end(key)
        return value

    def put(self, catalog: "Catalog", key: Hashable, value: Any, session_rows: SessionRows) -> None:
        """Store a value that was computed from the current catalog and from ``session_rows``."""
        snapshot = catalog.snapshot()
        if self._seen != snapshot:
            self._values.clear()
            self._seen = snapshot
        self._values[key] = value, session_rows
        if len(self._values) > MAX_ENTRIES:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


def session_context(catalog: "Catalog") -> Hashable:
    """Return the session state that system relations depend on: user, search path and output style."""
    asker = catalog.asker
    # An empty search path also finds names in public, but they are displayed with the schema.
    path = catalog.path, catalog.settings.get("search_path")
    return asker.user, asker.login, asker.shown, catalog.temporary_schema, path, catalog.style


@contextmanager
def record_session_rows(catalog: "Catalog") -> Iterator[SessionRows]:
    """Record the session rows that are read within the context."""
    consulted, told = catalog.system_reads, SessionRows()
    plain: Callable[[str], Any] = consulted.session_rows

    def session(kind: str) -> Any:
        rows = tuple(plain(kind))
        told[kind] = rows
        return rows

    consulted.session_rows = session
    try:
        yield told
    finally:
        consulted.session_rows = plain


@dataclass(slots=True)
class SystemReads:
    """Counts the reads of information that can change at any time, such as the time or the catalog.

    A plan is reusable only if binding it leaves ``count`` unchanged.
    """

    count: int = 0
    """Number of reads."""
    deparser: Deparser = field(default_factory=VerbatimDeparser)
    """Writes stored expressions and queries as Postgres does."""
    cacheable_count: int = 0
    """Number of reads that depend only on the catalog and on session rows."""
    cache: CatalogCache = field(default_factory=CatalogCache)
    """The catalog query cache."""
    session_rows: Callable[[str], Iterable[tuple[int | str | None, ...]]] = lambda _kind: ()
    """Return the session's rows of a kind, such as ``settings`` or ``locks``."""


@dataclass(slots=True)
class Catalog:
    """Tables, views and other objects by lower-case name.

    Names of schemas other than ``public`` are qualified.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    """Tables and views by lower-case name."""
    functions: "Mapping[str, UserFunctionName[UserFunction]]" = field(default_factory=dict)
    function_count: int = 0
    sequences: Mapping[str, Sequence] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=lambda: {PUBLIC: PUBLIC})
    search_path: tuple[str, ...] = DEFAULT_SEARCH_PATH
    settings: dict[str, str] = field(default_factory=dict)  # settings of the session
    comments: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)
    types: Mapping[str, Type | Domain] = field(default_factory=dict)
    """User-defined types and domains by lower-case name."""
    routines: Mapping[str, tuple[Routine, ...]] = field(default_factory=dict)
    """User-defined SQL functions by lower-case name, with all overloads."""
    aggregates: Mapping[str, tuple[Aggregate, ...]] = field(default_factory=dict)
    """User-defined aggregates by lower-case name, with all overloads."""
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    """Row security policies by lower-case table and name."""
    row_security: Mapping[str, Secured] = field(default_factory=dict)
    """Tables for which row-level security was ever enabled or forced, by lower-case name."""
    partitions: Mapping[str, Heir] = field(default_factory=dict)
    """Partitions by lower-case name."""
    partitioned: Mapping[str, Partitioned] = field(default_factory=dict)
    """Partitioned tables by lower-case name."""
    unique_indexes: Mapping[tuple[str, str], UniqueIndex] = field(default_factory=dict)
    """Unique indexes over expressions or with a predicate, by lower-case table and name."""
    dependencies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Relations and keys of functions that each view or dataflow reads, by its name."""
    stale_texts: Mapping[str, bool] = field(default_factory=dict)
    """Views whose text does not define them: a table below was altered, or a style was set."""
    now: int = 0  # current time of the running statement, in microseconds since 1970
    system_reads: SystemReads = field(default_factory=SystemReads)
    """Counters and caches of system information. Copies share it."""
    changed_partitions: dict[str, str] = field(default_factory=dict)
    """Partitions that a statement changes, by lower-case name, with the table that it names.

    The privileges and policies of that table apply.
    """
    asker: Asker = Asker()
    activity: Callable[[], list[tuple[object, ...]]] = list
    """Return number, user, program, state, last text, and what it waits for, of each session."""
    next_values: Callable[[], Mapping[str, int]] = dict
    """Return the next value of each sequence by name. Unused sequences are absent."""
    fold_function: "Callable[[ArrayFold], UserFunctionName[UserFunction]] | None" = None
    """Return the function by which plans compute a user-defined aggregate."""
    version: int = 0
    """Number of changes, apart from dependencies. A cached plan is valid for one version."""
    privileges: Privileges = field(default_factory=Privileges)
    attached_tables: set[str] = field(default_factory=set)  # internal tables, found on every search path
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the database's extensions by name, when they were created."""
    user_catalog: "Catalog | None" = None
    """The catalog that system relations describe, if this one is a variant for planning."""

    @property
    def checks_privileges(self) -> bool:
        """Whether the current user is not a superuser."""
        return self.asker.user != BOOTSTRAP_ROLE and not self.privileges.is_superuser(self.asker.user)

    @property
    def resolution_key(self) -> tuple[str, ...]:
        """The inputs of name resolution: search path, and the current user if privileges are checked."""
        own = (self.temporary_schema,) if self.temporary_schema in self.schemas else ()
        return (*own, *self.path, "", self.asker.user) if self.checks_privileges else (*own, *self.path)

    @property
    def temporary_schema(self) -> str:
        """The schema of the session's temporary tables."""
        return f"{TEMPORARY}_{self.asker.number}" if self.asker.number else TEMPORARY

    @property
    def path(self) -> tuple[str, ...]:
        """The schemas in which unqualified names are looked up, after the temporary tables."""
        if self.search_path is DEFAULT_SEARCH_PATH and len(self.schemas) == 1:
            return PUBLIC_SEARCH_PATH  # fast path: each statement reads the path several times
        return effective_search_path(self.search_path, self.asker.user.lower(), self.schemas)

    @property
    def style(self) -> Style:
        """The session's input and output style of dates, times and intervals."""
        return DEFAULT_STYLE if STYLE_SETTINGS.isdisjoint(self.settings) else style_of_settings(self.settings)

    @property
    def needs_custom_plan(self) -> bool:
        """Whether each statement of the session is planned without the plan cache."""
        return self.settings.get("plan_cache_mode") == "force_custom_plan" or self.style is not DEFAULT_STYLE

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def find(self, name: str) -> Entry | None:
        """Return the entry of a name, searching the path unless the name is resolved, or None."""
        found = self.entries.get(name.lower())
        if isinstance(name, QualifiedName) or (found is not None and found.name in self.attached_tables):
            return found
        plain = found is None or "." not in name
        return self._find_on_path(self.entries, name.lower(), found) if plain else found

    def _find_on_path(self, objects: Mapping[str, T], name: str, public: "T | None") -> "T | None":
        """Return the object of a name on the search path, given its object in ``public``."""
        if "." in name:
            schema, _, rest = name.partition(".")
            if schema == TEMPORARY:
                return objects.get(f"{self.temporary_schema}.{rest}")
            return objects.get(rest) if schema == PUBLIC else None
        own = self.temporary_schema
        if own in self.schemas and f"{own}.{name}" in objects:
            return objects[f"{own}.{name}"]
        if self.path == PUBLIC_SEARCH_PATH:
            return public
        for schema in self.path:
            found = public if schema == PUBLIC else objects.get(f"{schema}.{name}")
            if found is not None:
                return found
        return None

    def find_type(self, name: str) -> Type | Domain | None:
        """Return the user-defined type or domain of a name; None if there is none."""
        return self._find(self.types, name)

    def _find(self, objects: Mapping[str, T], name: str) -> "T | None":
        exact = objects.get(name.lower())
        if isinstance(name, QualifiedName):
            return exact
        return self._find_on_path(objects, name.lower(), exact) or (exact if "." in name else None)

    def resolve_type(self, type_: Type, span: Span | None) -> Type:
        """Return the type with user-defined names resolved.

        Raises:
            ProgrammingError: A name is no type.
        """
        if type_.kind is Kind.ENUM and not type_.labels:
            known = self.find_type(type_.name)
            found = known.type if isinstance(known, Domain) else known or self._row_type(type_.name)
            if found is None:
                place = span and span.at(type_.name)
                if (refusal := unsupported_type_error(type_.name, place)) is not None:
                    raise refusal
                names = (*self.types, *TYPE_NAMES_TO_SUGGEST, *(kind.name.lower() for kind in Kind))
                hint = did_you_mean(type_.name, names)
                message = f'type "{type_.name}" does not exist'
                raise ProgrammingError(message, span=place, hint=hint, sqlstate="42704")
            return found
        if not type_.parts:
            return type_
        if type_.kind is Kind.ARRAY and type_.parts[0].kind is Kind.ENUM:
            domain = self.find_type(type_.parts[0].name)
            if isinstance(domain, Domain) and (domain.checks or domain.required):
                raise NotSupportedError(
                    f"an array of domain {domain.name} is not supported",
                    span=span,
                    hint="declare an array of the domain's base type, and a CHECK on the column",
                )
        return replace(type_, parts=tuple(self.resolve_type(part, span) for part in type_.parts))

    def find_routines(self, name: str, schema: str = "") -> tuple[Routine, ...]:
        """Return the overloads of a user-defined SQL function; empty if there are none."""
        whole = f"{schema}.{name}" if schema else name
        return self._find_on_path(self.routines, whole.lower(), self.routines.get(whole.lower())) or (
            self.routines.get(whole.lower(), ()) if schema else ()
        )

    def routines_of_full_name(self, name: str) -> tuple[Routine, ...]:
        """Return the overloads of a qualified name."""
        return self.routines.get(name.lower().removeprefix(f"{PUBLIC}."), ())

    def _row_type(self, name: str) -> Type | None:
        """Return the row type of a relation; None if there is no such relation."""
        entry = self.find(name)
        if entry is None:
            return None
        return replace(record(list(entry.schema.types), list(entry.schema.names)), name=entry.name)

    def is_standalone_table(self, name: str) -> bool:
        """Return whether changes of a table affect no other one, and no row security applies to it."""
        key = name.lower()
        return not (key in self.partitions or key in self.partitioned or key in self.row_security)

    @property
    def has_one_schema(self) -> bool:
        """Whether unqualified names are found in ``public`` only."""
        return self.path == PUBLIC_SEARCH_PATH and self.temporary_schema not in self.schemas

    def with_path(self, path: tuple[str, ...]) -> "Catalog":
        """Return a copy with another search path."""
        (made := self.copy()).search_path = path
        return made

    def unqualified_name(self, name: str) -> str:
        """Return a name without its schema."""
        schema, _, rest = name.rpartition(".")
        return rest if schema.lower() in self.schemas else name

    def qualify_new_name(
        self, name: str, *, temporary: bool = False, span: Span | None = None
    ) -> QualifiedName:
        """Return the qualified name of an object to be created.

        The first temporary object of a session adds its temporary schema.

        Raises:
            ProgrammingError: The schema does not exist.
        """
        schema, _, rest = name.rpartition(".")
        if temporary or schema.lower() == TEMPORARY:
            own = self.temporary_schema
            if schema and schema.lower() not in (TEMPORARY, own):
                raise ProgrammingError("cannot create temporary relation in non-temporary schema", span=span)
            if own not in self.schemas:
                self.apply(SCHEMAS.put(own, own))
            return QualifiedName(f"{own}.{rest}")
        if not schema:
            schema = next((one for one in self.path if one in self.schemas), PUBLIC)
        if schema.lower() not in self.schemas:
            hint = did_you_mean(schema, self.schemas)
            place = span and span.at(schema)
            raise ProgrammingError(
                f'schema "{schema}" does not exist', span=place, hint=hint, sqlstate="3F000"
            )
        return QualifiedName(rest if schema.lower() == PUBLIC else f"{schema.lower()}.{rest}")

    def find_sequence(self, name: str) -> Sequence | None:
        """Return the sequence of a name; None if there is none."""
        return self._find(self.sequences, name)

    def find_index(self, name: str) -> Index | None:
        """Return the index of a name; None if there is none."""
        return self._find(self.indexes, name)

    def sequence(self, name: str, span: Span | None = None) -> Sequence:
        """Return the sequence of a name.

        Raises:
            ProgrammingError: There is none.
        """
        found = self.find_sequence(name if isinstance(name, QualifiedName) else name.replace('"', ""))
        if found is None:
            hint = did_you_mean(name, self.sequences)
            place = span and span.at(name)
            raise ProgrammingError(f'sequence "{name}" does not exist', span=place, hint=hint)
        return found

    def get(self, name: str, span: Span | None = None) -> Entry:
        """Return the entry of a name.

        Raises:
            ProgrammingError: There is none. The hint names a similar one.
        """
        entry = self.find(name)
        if entry is None:
            hint = did_you_mean(name, (known.name for known in self))
            place = span and span.at(name)
            raise ProgrammingError(f'relation "{name}" does not exist', span=place, hint=hint)
        return entry

    def table(self, name: str, span: Span | None = None) -> TableEntry:
        """Return the base table of a name.

        Raises:
            ProgrammingError: There is none, or it is a view.
        """
        entry = self.get(name, span)
        if isinstance(entry, ViewEntry):
            raise ProgrammingError(
                f'"{entry.name}" is a view', span=span, hint="change the tables that it reads"
            )
        return entry

    def add(self, entry: Entry, *, replace: bool = False) -> None:
        """Add an entry. With ``replace``, a view replaces a view.

        Raises:
            ProgrammingError: The name is in use.
        """
        old = self.entries.get(entry.name.lower())
        both_views = isinstance(old, ViewEntry) and isinstance(entry, ViewEntry)
        if old is not None and not (replace and both_views):
            raise ProgrammingError(
                f'relation "{old.name}" already exists', hint="DROP it first, or choose another name"
            )
        self.replace(entry)

    def remove(self, name: str) -> Entry:
        """Remove an entry and return it.

        Raises:
            ProgrammingError: There is none.
        """
        entry = self.get(name)
        self.apply(RELATIONS.remove(entry.name.lower()))
        return entry

    def next_function_number(self) -> int:
        """Return a number that no function of this database has had."""
        self.function_count += 1
        return self.function_count

    def apply(self, *ops: CatalogOp) -> None:
        """Perform operations, in their order. No other code changes the objects of a catalog."""
        changed: dict[ObjectKind[Any, Any], dict[Any, Any]] = {}
        for op in ops:
            objects = changed.get(op.kind)
            if objects is None:
                objects = changed[op.kind] = dict(attrgetter(op.kind.mapping)(self))
            if isinstance(op, Put):
                objects[op.key] = op.value
            else:
                objects.pop(op.key, None)
        for kind, objects in changed.items():
            self._set_objects(kind.mapping, objects)
        self.version += any(kind.affects_plans for kind in changed)

    def _set_objects(self, path: str, objects: Mapping[Any, Any]) -> None:
        owner, _, name = path.rpartition(".")
        setattr(self.privileges if owner else self, name, objects)

    def snapshot(self) -> CatalogSnapshot:
        """Return the objects, for :meth:`restore`."""
        objects: CatalogSnapshot = _OBJECTS(self)
        return objects

    def restore(self, snapshot: CatalogSnapshot) -> None:
        """Return to the objects of a snapshot."""
        for kind, objects in zip(KINDS, snapshot, strict=True):
            self._set_objects(kind.mapping, objects)
        self.version += 1

    def invalidate_plans(self) -> None:
        """Make cached plans invalid, as a change does."""
        self.version += 1

    def copy(self) -> "Catalog":
        """Return an independent copy. It shares the mappings, which are never changed in place."""
        return Catalog(
            self.entries,
            self.functions,
            self.function_count,
            self.sequences,
            self.schemas,
            self.search_path,
            self.settings,
            self.comments,
            self.indexes,
            self.types,
            self.routines,
            self.aggregates,
            self.policies,
            self.row_security,
            self.partitions,
            self.partitioned,
            self.unique_indexes,
            self.dependencies,
            self.stale_texts,
            self.now,
            self.system_reads,
            asker=self.asker,
            changed_partitions=self.changed_partitions,
            activity=self.activity,
            next_values=self.next_values,
            privileges=self.privileges.copy(),
            fold_function=self.fold_function,
            attached_tables=self.attached_tables,
            extensions=self.extensions,
        )

    def replace(self, entry: Entry) -> None:
        """Replace the entry of the same name."""
        self.apply(RELATIONS.put(entry.name.lower(), entry))


def get_node(entry: Entry) -> Get:
    """Return the algebra node that reads a relation. For a table, the last column is the rowid."""
    schema = entry.schema
    nullable = tuple(column.nullable for column in schema.columns)
    if isinstance(entry, ViewEntry):
        known = entry.keys
        if known is None:
            rel = entry.rel
            known = () if rel is None else tuple(tuple(sorted(key)) for key in unique_keys(rel))
        return Get(entry.name, schema.types, nullable, known, is_table=False)
    keys = ((schema.primary_key,) if schema.primary_key else ()) + ((len(schema.columns),),)
    return Get(entry.name, (*schema.types, ROWID), (*nullable, False), keys)


def did_you_mean(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return a hint that names the closest known name; None if none is close."""
    names = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), names, n=1, cutoff=likeness)
    return f'did you mean "{names[close[0]]}"?' if close else None


CLOCK: Final = "$clock"
"""Name of the clock table, which no query text can name."""
CLOCK_SCHEMA: Final = Schema((ColumnDef("now", TIMESTAMPTZ, nullable=False),))
CLOCK_ROW: Final = Get(CLOCK, (TIMESTAMPTZ, ROWID), (False, False), ((), (1,)))


OF_RELATIONS: Final = ("RELATION", "COLUMN", "CONSTRAINT", "POLICY")
"""Kinds of objects that are identified by the name of a relation."""


def move_comments(catalog: Catalog, old: str, new: str = "") -> list[CatalogOp]:
    """Return the operations that move the comments of a relation and its parts, or that remove them."""
    ops: list[CatalogOp] = []
    for key, text in catalog.comments.items():
        if key[0] in OF_RELATIONS and key[1] == old.lower():
            ops.append(COMMENTS.remove(key))
            if new:
                ops.append(COMMENTS.put((key[0], new.lower(), *key[2:]), text))
    return ops
