"""The catalog: tables with their schemas and views with their plans, by case-insensitive name.

A comparison with ``now()`` in a view becomes a comparison with its clock, a relation of one row. Rows of the
view appear and disappear when that row changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.algebra.rel import Get, OrderBy, Rel
from kpg.compiler.catalog.cache import Consulted, Noted
from kpg.compiler.catalog.constraints import Constraints, Domain, Index, Sequence
from kpg.compiler.catalog.privileges import FIRST, Asker, Rights
from kpg.compiler.catalog.routines import Aggregate, ArrayFold, Routine
from kpg.compiler.qualified_names import ONLY_PUBLIC, USUAL_PATH, Resolved, path_for, resolve
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import ROWID, TIMESTAMPTZ, ColumnDef, Kind, Schema, Type, record
from kpg.runtime.unsupported_features import unsupported_type
from kpg.runtime.values.styles import NAMES, PLAIN, Style, of_settings

if TYPE_CHECKING:
    from kpg.runtime.functions.user_functions import Own


NO_CONSTRAINTS = Constraints()
KEYS = "kpg_keys."
"""What the names of tables begin with that catalogs do not show: keys of others."""
PUBLIC = "public"
TEMPORARY = "pg_temp"
TAKEN_OVER = ("_entries", "sequences", "schemas", "comments", "indexes", "types", "routines", "others")
"""What a catalog has by names."""
SAID_OF_TYPES = ("string", "text", "int", "float")
"""Names of types that are not those of kinds, and that people mistype."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A base table."""

    name: str
    schema: Schema
    constraints: Constraints = NO_CONSTRAINTS

    def __post_init__(self) -> None:
        resolve(self, "name")


def query_of(name: str) -> str:
    """The query for all rows of a relation."""
    quoted = name.replace('"', '""')
    return f'SELECT * FROM "{quoted}"'


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view: a materialized one is read by name, any other is expanded to ``rel``, None if not known here.

    ``definition`` may be a function that gives the same plan whenever it is asked for one.
    """

    name: str
    schema: Schema
    definition: Rel | Callable[[], Rel] | None
    sql: str = ""
    materialized: bool = False
    order: tuple[OrderBy, ...] = ()
    keys: tuple[tuple[int, ...], ...] | None = None
    """Column sets that are unique; None if they are to be found in the plan."""
    checked: bool = False
    """Whether only rows that it shows may be written through it: WITH CHECK OPTION."""
    local: bool = False
    """Whether that asks for its own conditions only, and leaves it to views below to check theirs."""
    defaults: tuple[tuple[str, str], ...] = ()
    """What INSERT gives columns, by their names in lower case, before the table's DEFAULTs."""
    below: str = ""
    """The view that it selects from, if it is of one alone."""
    of_system: bool = False  # whether it reads relations of the system: its plan is new each time
    invoker: bool = False  # it is read with the rights of who asks, not those of its owner
    whole: str = ""  # ``sql`` with whole names, if it has others

    def __post_init__(self) -> None:
        resolve(self, "name", "below")

    @property
    def rel(self) -> Rel | None:
        """The view's plan."""
        return self.definition() if callable(self.definition) else self.definition

    @property
    def text(self) -> str:
        """The query to be read again: it means the same on every search path. ``sql`` is what was written."""
        return self.whole or self.sql

    @property
    def is_derived(self) -> bool:
        """Whether it is a relation of a Datalog program: its query names itself, the rules are elsewhere."""
        return self.sql == query_of(self.name)


Entry = TableEntry | ViewEntry


@dataclass(slots=True)
class Catalog:
    """Tables and views by case-insensitive name, that of a schema other than public with a dot behind it;
    and the functions that users have made, in lower case."""

    _entries: dict[str, Entry] = field(default_factory=dict)
    functions: "dict[str, Named[Own]]" = field(default_factory=dict)
    functions_made: int = 0
    sequences: dict[str, Sequence] = field(default_factory=Noted)
    schemas: dict[str, str] = field(default_factory=lambda: {PUBLIC: PUBLIC})
    search_path: tuple[str, ...] = USUAL_PATH
    settings: dict[str, str] = field(default_factory=dict)  # what the session has set
    comments: dict[tuple[str, ...], str] = field(default_factory=Noted)
    indexes: dict[str, Index] = field(default_factory=Noted)
    types: dict[str, Type | Domain] = field(default_factory=dict)
    """Those that users have made, by their names in lower case."""
    routines: dict[str, tuple[Routine, ...]] = field(default_factory=dict)
    """The functions that users have written, by name in lower case; those of one name differ in arguments."""
    others: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """Rules and aggregates of users, by their kinds, relations and names in lower case."""
    moment: int = 0  # the present time of the statement that is run, in microseconds since 1970
    consulted: Consulted = field(default_factory=Consulted)
    """Shared by copies."""
    parts: dict[str, str] = field(default_factory=dict)
    """Tables, in lower case, that a statement changes as parts of another one, whose privileges count."""
    asker: Asker = Asker()
    activity: Callable[[], list[tuple[object, ...]]] = list
    """Number, user, program, state and last text of each session; kind and name of what it waits for."""
    numbers: Callable[[], Mapping[str, int]] = dict
    """What sequences will give next, by their names; those that were never asked are not there."""
    fold_function: "Callable[[ArrayFold], Named[Own]] | None" = None
    """The function by which plans compute an aggregate of users."""
    version: int = 0
    """How often relations, or what anybody may do with them, have come, changed or gone."""
    rights: Rights = field(default_factory=Rights)
    attached: set[str] = field(default_factory=set)  # tables of rows from outside: nothing hides them
    told: "Catalog | None" = None
    """The catalog that the system's relations tell of, if this one says of views what plans have to do."""

    @property
    def is_limited(self) -> bool:
        """Whether who asks is no superuser."""
        return self.asker.user != FIRST and not self.rights.is_superuser(self.asker.user)

    @property
    def outlook(self) -> tuple[str, ...]:
        """What the meaning of a text depends on: the path, and who asks if that may be refused."""
        own = (self.temporary,) if self.temporary in self.schemas else ()
        return (*own, *self.path, "", self.asker.user) if self.is_limited else (*own, *self.path)

    @property
    def temporary(self) -> str:
        """The schema of the temporary tables of the session that asks."""
        return f"{TEMPORARY}_{self.asker.number}" if self.asker.number else TEMPORARY

    @property
    def path(self) -> tuple[str, ...]:
        """The schemas in which a name without one is looked up, temporary tables before them all."""
        if self.search_path is USUAL_PATH and len(self.schemas) == 1:
            return ONLY_PUBLIC  # each statement asks, more than once
        return path_for(self.search_path, self.asker.user.lower(), self.schemas)

    @property
    def style(self) -> Style:
        """How the session writes and reads moments and their like."""
        return PLAIN if NAMES.isdisjoint(self.settings) else of_settings(self.settings)

    @property
    def plans_anew(self) -> bool:
        """Whether the session has each statement planned for itself."""
        return self.settings.get("plan_cache_mode") == "force_custom_plan" or self.style is not PLAIN

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def entries(self) -> "dict[str, Entry]":
        """Tables and views by their names in lower case; not to be changed."""
        return self._entries

    def find(self, name: str) -> Entry | None:
        """The entry of that name, if there is one: a written one is looked up along the path."""
        found = self._entries.get(name.lower())
        if isinstance(name, Resolved) or (found is not None and found.name in self.attached):
            return found
        plain = found is None or "." not in name
        return self._on_path(self._entries, name.lower(), found) if plain else found

    def _on_path(self, known: "dict[str, T]", name: str, public: "T | None") -> "T | None":
        """What a name without schema means, given what it means in ``public``."""
        if "." in name:
            schema, _, rest = name.partition(".")
            if schema == TEMPORARY:
                return known.get(f"{self.temporary}.{rest}")
            return known.get(rest) if schema == PUBLIC else None
        own = self.temporary
        if own in self.schemas and f"{own}.{name}" in known:
            return known[f"{own}.{name}"]
        if self.path == ONLY_PUBLIC:
            return public
        for schema in self.path:
            found = public if schema == PUBLIC else known.get(f"{schema}.{name}")
            if found is not None:
                return found
        return None

    def find_type(self, name: str) -> Type | Domain | None:
        """The type of a user's of that name, if there is one."""
        return self._find(self.types, name)

    def _find(self, known: "dict[str, T]", name: str) -> "T | None":
        exact = known.get(name.lower())
        if isinstance(name, Resolved):
            return exact
        return self._on_path(known, name.lower(), exact) or (exact if "." in name else None)

    def known_type(self, type_: Type, span: Span | None) -> Type:
        """The type with what its name stands for; ProgrammingError if that is nothing."""
        if type_.kind is Kind.ENUM and not type_.labels:
            known = self.find_type(type_.name)
            found = known.type if isinstance(known, Domain) else known or self._row_type(type_.name)
            if found is None:
                place = span and span.at(type_.name)
                if (refusal := unsupported_type(type_.name, place)) is not None:
                    raise refusal
                names = (*self.types, *SAID_OF_TYPES, *(kind.name.lower() for kind in Kind))
                hint = did_you_mean(type_.name, names)
                error = ProgrammingError(f'type "{type_.name}" does not exist', span=place, hint=hint)
                error.sqlstate = "42704"
                raise error
            return found
        if not type_.parts:
            return type_
        if type_.kind is Kind.ARRAY and type_.parts[0].kind is Kind.ENUM:
            domain = self.find_type(type_.parts[0].name)
            if isinstance(domain, Domain) and (domain.checks or domain.required):
                raise NotSupportedError(
                    f"an array of domain {domain.name} is not supported",
                    span=span,
                    hint="declare an array of the type that the domain is of, and a CHECK of the column",
                )
        return replace(type_, parts=tuple(self.known_type(part, span) for part in type_.parts))

    @property
    def aggregates(self) -> dict[str, tuple[Aggregate, ...]]:
        """The aggregates of users, by name."""
        return {key[1]: found for key, found in self.others.items() if key[0] == "aggregate"}

    def find_routines(self, name: str, schema: str = "") -> tuple[Routine, ...]:
        """The functions in SQL of that name, none if there are no such."""
        whole = f"{schema}.{name}" if schema else name
        return self._on_path(self.routines, whole.lower(), self.routines.get(whole.lower())) or (
            self.routines.get(whole.lower(), ()) if schema else ()
        )

    def whole_routines(self, name: str) -> tuple[Routine, ...]:
        """The functions of a whole name, as the catalog has it."""
        return self.routines.get(name.lower().removeprefix(f"{PUBLIC}."), ())

    def _row_type(self, name: str) -> Type | None:
        """The type of a relation's rows; None if there is no such relation."""
        entry = self.find(name)
        if entry is None:
            return None
        return replace(record(list(entry.schema.types), list(entry.schema.names)), name=entry.name)

    @property
    def has_one_schema(self) -> bool:
        """Whether a name means what is in ``public``."""
        return self.path == ONLY_PUBLIC and self.temporary not in self.schemas

    def on_path(self, path: tuple[str, ...]) -> "Catalog":
        """A copy that looks up names in other schemas."""
        (made := self.copy()).search_path = path
        return made

    def plain(self, name: str) -> str:
        """A whole name without its schema."""
        schema, _, rest = name.rpartition(".")
        return rest if schema.lower() in self.schemas else name

    def created(self, name: str, *, temporary: bool = False, span: Span | None = None) -> Resolved:
        """The whole name of what is to be created under a name; ProgrammingError without its schema."""
        schema, _, rest = name.rpartition(".")
        if temporary or schema.lower() == TEMPORARY:
            own = self.temporary
            if schema and schema.lower() not in (TEMPORARY, own):
                raise ProgrammingError("a temporary table is in no schema that has a name", span=span)
            self.schemas[own] = own
            return Resolved(f"{own}.{rest}")
        if not schema:
            schema = next((one for one in self.path if one in self.schemas), PUBLIC)
        if schema.lower() not in self.schemas:
            hint = did_you_mean(schema, self.schemas)
            place = span and span.at(schema)
            raise ProgrammingError(f'schema "{schema}" does not exist', span=place, hint=hint)
        return Resolved(rest if schema.lower() == PUBLIC else f"{schema.lower()}.{rest}")

    def find_sequence(self, name: str) -> Sequence | None:
        """The sequence of that name, if there is one."""
        return self._find(self.sequences, name)

    def find_index(self, name: str) -> Index | None:
        """The index of that name, if there is one."""
        return self._find(self.indexes, name)

    def sequence(self, name: str, span: Span | None = None) -> Sequence:
        """The sequence of that name; ProgrammingError if there is none."""
        found = self.find_sequence(name if isinstance(name, Resolved) else name.replace('"', ""))
        if found is None:
            hint = did_you_mean(name, self.sequences)
            place = span and span.at(name)
            raise ProgrammingError(f'sequence "{name}" does not exist', span=place, hint=hint)
        return found

    def get(self, name: str, span: Span | None = None) -> Entry:
        """The entry of that name; ProgrammingError with a suggestion if there is none."""
        entry = self.find(name)
        if entry is None:
            hint = did_you_mean(name, (known.name for known in self))
            place = span and span.at(name)
            raise ProgrammingError(f'relation "{name}" does not exist', span=place, hint=hint)
        return entry

    def table(self, name: str, span: Span | None = None) -> TableEntry:
        """The base table of that name; ProgrammingError if it does not exist or is a view."""
        entry = self.get(name, span)
        if isinstance(entry, ViewEntry):
            raise ProgrammingError(
                f'"{entry.name}" is a view', span=span, hint="change the tables that it reads"
            )
        return entry

    def add(self, entry: Entry, *, replace: bool = False) -> None:
        """Register an entry; ProgrammingError if the name is taken, unless a view replaces a view."""
        old = self._entries.get(entry.name.lower())
        both_views = isinstance(old, ViewEntry) and isinstance(entry, ViewEntry)
        if old is not None and not (replace and both_views):
            raise ProgrammingError(
                f'relation "{old.name}" already exists', hint="DROP it first, or choose another name"
            )
        self.version += 1
        self._entries[entry.name.lower()] = entry

    def remove(self, name: str) -> Entry:
        """Forget an entry and return it; ProgrammingError if there is none."""
        entry = self.get(name)
        self.version += 1
        del self._entries[entry.name.lower()]
        return entry

    def number_function(self) -> int:
        """A number that no function of this database has had."""
        self.functions_made += 1
        return self.functions_made

    def copy(self) -> "Catalog":
        """A catalog with the same entries that changes on its own (for rolling back)."""
        return Catalog(
            dict(self._entries),
            dict(self.functions),
            self.functions_made,
            Noted(self.sequences),
            dict(self.schemas),
            self.search_path,
            self.settings,
            Noted(self.comments),
            Noted(self.indexes),
            dict(self.types),
            dict(self.routines),
            dict(self.others),
            self.moment,
            self.consulted,
            asker=self.asker,
            parts=self.parts,
            activity=self.activity,
            numbers=self.numbers,
            rights=self.rights.copy(),
            fold_function=self.fold_function,
            attached=self.attached,
        )

    def become(self, other: "Catalog") -> None:
        """Take over all that another catalog has."""
        for name in TAKEN_OVER:  # in place: others hold these dictionaries, too
            known = getattr(self, name)
            known.clear()
            known.update(getattr(other, name))
        self.rights.become(other.rights)
        self.search_path = other.search_path
        self.version += 1

    def replace(self, entry: Entry) -> None:
        """Put an entry in the place of the one of its name."""
        self.version += 1
        self._entries[entry.name.lower()] = entry


def get_of(entry: Entry) -> Get:
    """The algebra's access to a catalog relation; of a table, the rowid is the last column."""
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
    """A hint that names the closest of the known names, if any is close."""
    names = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), names, n=1, cutoff=likeness)
    return f'did you mean "{names[close[0]]}"?' if close else None


CLOCK: Final = "$clock"
"""The table's name, which no text can say."""
CLOCK_SCHEMA: Final = Schema((ColumnDef("now", TIMESTAMPTZ, nullable=False),))
CLOCK_ROW: Final = Get(CLOCK, (TIMESTAMPTZ, ROWID), (False, False), ((), (1,)))


OF_RELATIONS: Final = ("RELATION", "COLUMN", "CONSTRAINT", "POLICY")
"""Kinds of what has the name of a relation."""


def move_comments(catalog: Catalog, was: str, name: str = "") -> None:
    """What was said of a relation and its parts is said of it under another name, or forgotten with it."""
    for key, text in list(catalog.comments.items()):
        if key[0] in OF_RELATIONS and key[1] == was.lower():
            del catalog.comments[key]
            if name:
                catalog.comments[(key[0], name.lower(), *key[2:])] = text
