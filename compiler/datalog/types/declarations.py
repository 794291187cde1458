"""Declared types and relations: the subtype order, columns, and the options of directives.

A type's *kind* decides how values are stored and which operations apply. Its name decides what it may be
mixed with: a value of a type is also a value of its supertypes. A base type is the top of its kind. Relations
include those of the catalog. :func:`check_transfer` checks the options of ``.input``, ``.output`` and
``.printsize``.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.catalog.entries import Catalog, did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.rules.core import Column, Direction, Domain, Kind, Structure, Transfer, ValueType
from kpg.runtime.errors import Span
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, decimal


@dataclass(frozen=True, slots=True)
class TypeKind:
    """How values are stored and used. ``structure`` names the record type or ADT."""

    domain: Domain
    type: Type
    structure: str = ""

    def __str__(self) -> str:
        if self.structure:
            return self.structure
        return str(self.type).lower() if self.domain is Domain.SQL else self.domain.value

    @property
    def is_numeric(self) -> bool:
        return self.domain in (Domain.NUMBER, Domain.UNSIGNED, Domain.FLOAT)


class Scheme(enum.Enum):
    """How the types of a functor's arguments and result hang together."""

    SAME = "the arguments and the result are of one kind"
    FIXED = "every argument and the result have their kind"
    CONVERT = "one argument of some kinds"


@dataclass(frozen=True, slots=True)
class Functor:
    """A functor. ``domains``: the domains of the arguments (SAME, CONVERT)."""

    name: str
    scheme: Scheme
    least: int
    most: int
    domains: frozenset[Domain] = frozenset()
    args: tuple[TypeKind, ...] = ()
    result: TypeKind | None = None


NUMBER = TypeKind(Domain.NUMBER, BIGINT)
UNSIGNED = TypeKind(Domain.UNSIGNED, BIGINT)
FLOAT = TypeKind(Domain.FLOAT, DOUBLE)
SYMBOL = TypeKind(Domain.SYMBOL, TEXT)
CONDITION = TypeKind(Domain.SQL, BOOLEAN)
BASE: Mapping[str, TypeKind] = {
    "number": NUMBER,
    "unsigned": UNSIGNED,
    "float": FLOAT,
    "symbol": SYMBOL,
    "date": TypeKind(Domain.SQL, DATE),
    "timestamp": TypeKind(Domain.SQL, TIMESTAMP),
    "boolean": CONDITION,
    **{f"{letters}{bits}": NUMBER for letters in ("int", "i") for bits in (8, 16, 32, 64)},
    **{f"{letters}{bits}": UNSIGNED for letters in ("uint", "u") for bits in (8, 16, 32, 64)},
    "f32": FLOAT,
    "f64": FLOAT,
    "string": SYMBOL,
    "bool": CONDITION,
}
"""The types that there are, FlowLog's names for them among them."""
OURS = ("number", "unsigned", "float", "symbol", "date", "timestamp", "boolean")
SOUFFLES = ("number", "unsigned", "float", "symbol")
"""The only names of types that a program of Soufflé's cannot define."""
OTHER_NAMES = {
    "int": "number",
    "integer": "number",
    "bigint": "number",
    "text": "symbol",
    "varchar": "symbol",
    "double": "float",
    "real": "float",
}
"""What other languages call the base types, for hints."""


def kind_of_stored(type_: Type) -> TypeKind:
    """What values of a SQL type are to Datalog: whole numbers, floats and texts as its own."""
    if type_.is_integer:
        return NUMBER
    if type_.is_float:
        return FLOAT
    if type_.is_text:
        return SYMBOL
    return TypeKind(Domain.SQL, type_)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of an ADT, or a record type's only one: the names and types of its fields."""

    structure: str
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class TypeTable:
    """The types of a program by name."""

    kinds: dict[str, TypeKind] = field(default_factory=lambda: dict(BASE))
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    records: dict[str, Branch] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    functors: dict[str, Functor] = field(default_factory=dict)
    functions: dict[str, Named[ScalarFunction]] = field(default_factory=dict)
    """What is called by those names that are not kpg's: users' functions, by functors' names too."""
    folds: dict[str, TypeKind] = field(default_factory=dict)
    """Of aggregates of the users' what they take and give."""
    redefined: set[str] = field(default_factory=set)
    """Names of ``BASE`` that the program has types of its own for: ``string`` is Soufflé's to define."""
    is_legacy: bool = False
    """Whether heads take any value of a column's kind, whatever its declared type: ``--legacy``."""

    def value_type(self, name: str) -> ValueType:
        """The column type of a type's name."""
        kind = self.kinds[name]
        return ValueType(name, kind.domain, kind.type)

    def leaves(self, name: str) -> frozenset[str]:
        """The types that a union stands for; of any other type itself."""
        members = self.members.get(name)
        if members is None:
            return frozenset((name,))
        return frozenset(leaf for member in members for leaf in self.leaves(member))

    def is_subtype(self, lower: str, upper: str) -> bool:
        """Whether every value of ``lower`` is one of ``upper``."""
        return all(
            any(self._below(leaf, target) for target in self.leaves(upper)) for leaf in self.leaves(lower)
        )

    def _below(self, leaf: str, target: str) -> bool:
        is_base = target in BASE and target not in self.redefined
        if leaf == target or (is_base and self.kinds[leaf] == BASE[target]):
            return True
        base = self.bases.get(leaf)
        return base is not None and any(self._below(part, target) for part in self.leaves(base))

    def meet(self, left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
        """The types of the values that are of one of ``left`` and of one of ``right``; empty if there is
        none.
        """
        lefts = frozenset(leaf for name in left for leaf in self.leaves(name))
        rights = frozenset(leaf for name in right for leaf in self.leaves(name))
        lower = frozenset(a for a in lefts if any(self._below(a, b) for b in rights))
        return lower | frozenset(b for b in rights if any(self._below(b, a) for a in lefts))

    def structures(self) -> dict[str, Structure]:
        """The record types and ADTs, by every name that they have."""
        found: dict[str, dict[str, tuple[tuple[str, ValueType], ...]]] = {}
        for branch in (*self.records.values(), *self.branches.values()):
            fields = tuple((name, self.value_type(type_)) for name, type_ in branch.fields)
            found.setdefault(branch.structure, {})[branch.name] = fields
        made = {name: Structure(name, branches) for name, branches in found.items()}
        return {name: made[kind.structure] for name, kind in self.kinds.items() if kind.structure in made}


def declare_types(declarations: Iterable[ast.TypeDeclaration], diagnostics: Diagnostics) -> TypeTable:
    """The table of the declared types; what is wrong is noted and left out, or taken for a number."""
    table = TypeTable()
    declared: dict[str, ast.TypeDeclaration] = {}
    for declaration in declarations:
        name = declaration.name
        if name.text in SOUFFLES or name.text in declared:
            diagnostics.error("redefinition", f"type {name} is already defined", name.span)
        else:
            declared[name.text] = declaration
            if table.kinds.pop(name.text, None) is not None:
                table.redefined.add(name.text)
    run = _Declaring(table, declared, diagnostics)
    for text in declared:
        run.kind(text, ())
    for declaration in declared.values():
        run.structure(declaration)
    return table


@dataclass(slots=True)
class _Declaring:
    table: TypeTable
    declared: Mapping[str, ast.TypeDeclaration]
    diagnostics: Diagnostics

    def kind(self, name: str, through: tuple[str, ...]) -> TypeKind:
        """The kind of a declared type, entered into the table."""
        if name in self.table.kinds:
            return self.table.kinds[name]
        declaration = self.declared[name]
        if name in through:
            message = f"type {name} is defined by itself"
            self.diagnostics.error("type", message, declaration.name.span)
            return NUMBER
        match declaration:
            case ast.RecordType():
                kind = TypeKind(Domain.RECORD, TEXT, name)
            case ast.AdtType():
                kind = TypeKind(Domain.ADT, TEXT, name)
            case ast.Subtype(base=base):
                kind = self._reference(base, (*through, name))
                if kind.structure:
                    what = "record" if kind.domain is Domain.RECORD else "ADT"
                    message = f"{name} cannot be a subtype of {base.name}, a type of {what}s"
                    hint = f"another name for it is .type {name} = {base.name}"
                    self.diagnostics.error("type", message, base.name.span, hint=hint)
                of = self.declared.get(base.name.text)
                if isinstance(of, ast.UnionType) and len(of.members) > 1:
                    message = f"{name} cannot be a subtype of {base.name}, a union"
                    hint = f"of which kind? .type {name} <: {kind}"
                    self.diagnostics.error("type", message, base.name.span, hint=hint)
                self.table.bases[name] = self.spelled(base)
            case ast.UnionType(members=members):
                kind = self._union(declaration, members, (*through, name))
            case _:
                assert_never(declaration)
        self.table.kinds[name] = kind
        return kind

    def _union(
        self, declaration: ast.UnionType, members: tuple[ast.TypeRef, ...], through: tuple[str, ...]
    ) -> TypeKind:
        errors = self.diagnostics.errors
        kinds = {member.name.text: self._reference(member, through) for member in members}
        if len(set(kinds.values())) > 1 and errors == self.diagnostics.errors:
            shown = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
            message = f"union type {declaration.name} has members of different kinds: {shown}"
            self.diagnostics.error("type", message, declaration.span)
        elif errors == self.diagnostics.errors:
            spelled = tuple(dict.fromkeys(self.spelled(member) for member in members))
            self.table.members[declaration.name.text] = spelled
        return next(iter(kinds.values()))

    def _reference(self, reference: ast.TypeRef, through: tuple[str, ...]) -> TypeKind:
        name = reference.name.text
        if name == "decimal" and name not in self.declared:
            return self._decimal(reference)
        if name in self.declared or name in BASE:
            return self.kind(name, through)
        self.undefined(reference.name)
        return NUMBER

    def _decimal(self, reference: ast.TypeRef) -> TypeKind:
        precision, scale = reference.arguments or (18, 0)
        if not (1 <= precision <= 18 and 0 <= scale <= precision):
            message = f"decimal({precision}, {scale}) is not supported"
            hint = "at most 18 digits, of which at most all are decimal places"
            self.diagnostics.error("type", message, reference.name.span, hint=hint)
            precision, scale = 18, 0
        kind = TypeKind(Domain.SQL, decimal(precision, scale))
        self.table.kinds[f"decimal({precision}, {scale})"] = kind
        return kind

    def undefined(self, name: ast.Name) -> None:
        """Notes that a type is not defined."""
        other = OTHER_NAMES.get(name.text.lower())
        hint = f'did you mean "{other}"?' if other else did_you_mean(name.text, (*OURS, *self.declared))
        self.diagnostics.error("undefined", f"type {name} is not defined", name.span, hint=hint)

    def spelled(self, reference: ast.TypeRef) -> str:
        """The name of a type that is referred to; number if there is none."""
        name = reference.name.text
        if name == "decimal" and name not in self.declared:
            return f"decimal{reference.arguments or (18, 0)}"
        return name if name in self.declared or name in BASE else "number"

    def structure(self, declaration: ast.TypeDeclaration) -> None:
        """Enters the fields of a record type or ADT."""
        if isinstance(declaration, ast.RecordType):
            branch = self._branch(declaration.name.text, "", declaration.fields)
            self.table.records[declaration.name.text] = branch
        elif isinstance(declaration, ast.AdtType):
            for part in declaration.branches:
                if part.name.text in self.table.branches:
                    message = f"branch {part.name} is already defined"
                    self.diagnostics.error("redefinition", message, part.name.span)
                    continue
                branch = self._branch(declaration.name.text, part.name.text, part.fields)
                self.table.branches[part.name.text] = branch

    def _branch(self, structure: str, name: str, attributes: tuple[ast.Attribute, ...]) -> Branch:
        fields: dict[str, str] = {}
        for attribute in attributes:
            kind = self._reference(attribute.type, ())
            if attribute.name.text in fields:
                message = f"field {attribute.name} is already defined"
                self.diagnostics.error("redefinition", message, attribute.name.span)
            if kind.domain is Domain.SQL:
                message = f"a field cannot be of type {attribute.type.name}"
                hint = "fields are number, unsigned, float, symbol, records or ADTs"
                self.diagnostics.error("structure", message, attribute.type.name.span, hint=hint)
            fields[attribute.name.text] = self.spelled(attribute.type)
        return Branch(structure, name, tuple(fields.items()))


def type_name(reference: ast.TypeRef, table: TypeTable, diagnostics: Diagnostics) -> str:
    """The name in the table of a type that a relation or cast refers to; noted if there is none."""
    run = _Declaring(table, {}, diagnostics)
    name = reference.name.text
    if name in table.kinds and not reference.arguments:
        return name
    if name == "decimal":
        kind = run._decimal(reference)
        return str(kind).replace("DECIMAL", "decimal")
    other = OTHER_NAMES.get(name.lower())
    hint = f'did you mean "{other}"?' if other else did_you_mean(name, table.kinds)
    diagnostics.error("undefined", f"type {name} is not defined", reference.name.span, hint=hint)
    return "number"


STORAGE = frozenset({"brie", "btree", "btree_delete", "provenance", "suppressed"})
"""Qualifiers that say how to store or show a relation: accepted, and of no effect."""
OLD_TRANSFERS = frozenset({"input", "output", "printsize"})
"""Qualifiers that stand for a directive."""


@dataclass(slots=True)
class RelationInfo:
    """A relation while the program is checked."""

    name: str
    columns: tuple[Column, ...]
    span: Span | None
    kind: Kind = Kind.INPUT
    qualifiers: frozenset[str] = frozenset()
    has_rules: bool = False
    has_facts: bool = False
    has_input: bool = False
    has_output: bool = False
    aggregates: tuple[str | None, ...] = ()
    keys: tuple[tuple[int, ...], ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(column.type.name for column in self.columns)

    @property
    def is_inline(self) -> bool:
        return "inline" in self.qualifiers


@dataclass(slots=True)
class Relations:
    """Relations by name; those of the catalog are entered when they are first looked up.

    ``own`` are names that the program may declare although the catalog has them.
    """

    catalog: Catalog
    types: TypeTable
    diagnostics: Diagnostics
    own: frozenset[str] = frozenset()
    known: dict[str, RelationInfo] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def declare(self, declarations: Iterable[ast.Declaration]) -> None:
        """Enter declared relations."""
        for declaration in declarations:
            columns = self._columns(declaration)
            qualifiers = self._qualifiers(declaration, len(columns))
            keys = self._keys(declaration, columns, qualifiers)
            if "eqrel" in qualifiers and len({column.type.name for column in columns}) == 2 == len(columns):
                message = f"the columns of equivalence relation {declaration.names[0]} are of different types"
                self.diagnostics.error("type", message, declaration.attributes[1].type.name.span)
            for name in declaration.names:
                old = self.known.get(name.text)
                if old is not None:
                    notes = (("it was defined here:", old.span),)
                    message = f"relation {name} is already defined"
                    self.diagnostics.error("redefinition", message, name.span, notes=notes)
                elif name.text in self.catalog and name.text not in self.own:
                    message = f"{name} is a relation of the database already"
                    hint = "rules can name it without a declaration"
                    self.diagnostics.error("redefinition", message, name.span, hint=hint)
                else:
                    made = RelationInfo(name.text, columns, name.span, qualifiers=qualifiers, keys=keys)
                    self.known[name.text] = made

    def _columns(self, declaration: ast.Declaration) -> tuple[Column, ...]:
        columns: list[Column] = []
        for attribute in declaration.attributes:
            name = attribute.name
            if any(column.name == name.text for column in columns):
                self.diagnostics.error("redefinition", f"column {name} is already defined", name.span)
            type_ = self.types.value_type(type_name(attribute.type, self.types, self.diagnostics))
            columns.append(Column(name.text, type_, type_.type))
        return tuple(columns)

    def _qualifiers(self, declaration: ast.Declaration, arity: int) -> frozenset[str]:
        found: set[str] = set()
        for name in declaration.qualifiers:
            if name.text in found:
                self.diagnostics.error("redefinition", f"{name} is given twice", name.span)
            found.add(name.text)
            if name.text in OLD_TRANSFERS and not self.types.is_legacy:
                hint = f"write .{name} {declaration.names[0]}"
                message = f"deprecated qualifier {name}"
                self.diagnostics.warning("deprecated", message, name.span, hint=hint)
            if name.text == "eqrel" and arity != 2:
                message = f"equivalence relation {declaration.names[0]} has {plural(arity, 'column')}, not 2"
                self.diagnostics.error("arity", message, name.span)
        stored = [name for name in declaration.qualifiers if name.text in (*STORAGE, "eqrel")]
        if len({name.text for name in stored} & {"brie", "btree", "btree_delete", "eqrel"}) > 1:
            shown = " and ".join(name.text for name in stored)
            self.diagnostics.error("inline", f"qualifiers {shown} contradict each other", stored[1].span)
        for one, other in (("inline", "no_inline"), ("magic", "no_magic"), ("inline", "eqrel")):
            if {one, other} <= found:
                message = f"qualifiers {one} and {other} contradict each other"
                self.diagnostics.error("inline", message, declaration.span)
        return frozenset(found - STORAGE)

    def _keys(
        self, declaration: ast.Declaration, columns: tuple[Column, ...], qualifiers: frozenset[str]
    ) -> tuple[tuple[int, ...], ...]:
        """The columns of each choice-domain."""
        names = [column.name for column in columns]
        for name in (name for key in declaration.keys for name in key if name.text not in names):
            message = f"{declaration.names[0]} has no column {name}"
            self.diagnostics.error("undefined", message, name.span, hint=did_you_mean(name.text, names))
        if declaration.keys and not qualifiers.isdisjoint(("inline", "eqrel")):
            message = f"{declaration.names[0]} cannot have a choice-domain and be inline or an eqrel"
            self.diagnostics.error("inline", message, declaration.span)
        found = (tuple(names.index(one.text) for one in key if one.text in names) for key in declaration.keys)
        return tuple(dict.fromkeys(found))

    def find(self, name: ast.Name) -> RelationInfo | None:
        """The relation of that name; noted, once for each place, if there is none."""
        info = self.known.get(name.text)
        if info is not None:
            return info
        entry = self.catalog.find(name.text)
        if entry is None:
            self.unknown.add(name.text)
            names = (*self.known, *(known.name for known in self.catalog))
            message = f"relation {name} is not defined"
            self.diagnostics.error("undefined", message, name.span, hint=did_you_mean(name.text, names))
            return None
        columns = tuple(
            self._external(column.name, column.type, column.nullable) for column in entry.schema.columns
        )
        info = RelationInfo(entry.name, columns, None, Kind.EXTERNAL)
        self.known[name.text] = info
        return info

    def _external(self, name: str, stored: Type, nullable: bool) -> Column:
        kind = kind_of_stored(stored)
        known = f"{kind} of SQL" if str(kind) in self.types.redefined else str(kind)
        self.types.kinds.setdefault(known, kind)
        return Column(name, self.types.value_type(known), stored, nullable)


BOTH: Final = ("IO", "name", "filename", "dbname", "delimiter", "headers", "rfc4180", "compress")
OPTIONS: Final[Mapping[Direction, tuple[str, ...]]] = {
    Direction.INPUT: (*BOTH, "columns", "format"),
    Direction.OUTPUT: (*BOTH, "format", "attributeNames", "quotes", "order_by", "limit", "nullary"),
    Direction.PRINTSIZE: ("IO",),
}
KINDS: Final[Mapping[Direction, tuple[str, ...]]] = {
    Direction.INPUT: ("file", "stdin", "csv", "parquet", "spark", "sqlite", "json", "jsonfile", "command"),
    Direction.OUTPUT: ("file", "stdout", "stdoutprintsize", "csv", "parquet", "sqlite", "json", "jsonfile"),
    Direction.PRINTSIZE: ("stdout", "stdoutprintsize"),
}
"""What IO may be, in any case; ``csv`` is what ``file`` is."""
SAME: Final[Mapping[str, str]] = {"cmd": "command"}
"""Other words for kinds."""
SWITCHES: Final = ("headers", "rfc4180", "compress", "quotes")
TRUE: Final = ("true", "1", "yes")
FALSE: Final = ("false", "0", "no")


def kind_of(options: Mapping[str, str]) -> str:
    """What IO is."""
    given = options.get("IO", "file").lower()
    return SAME.get(given, given)


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Whether a switch is on; none is unless it is given."""
    return options.get(name, "false").lower() in TRUE


def order_of(order_by: str) -> list[tuple[str, bool]]:
    """The columns of ``order_by``, and whether each ascends. ValueError says what is wrong."""
    found: list[tuple[str, bool]] = []
    for part in order_by.split(","):
        name, *direction = part.split() or [""]
        words = [word.lower() for word in direction]
        if not name or words not in ([], ["asc"], ["desc"]):
            raise ValueError(f'"{part.strip()}" is no column with ASC or DESC')
        found.append((name, words != ["desc"]))
    return found


def check_transfer(
    transfer: Transfer,
    relation: RelationInfo,
    options: Iterable[tuple[str, str]],
    others: Sequence[Transfer],
    diagnostics: Diagnostics,
) -> None:
    """Notes options that there are not, or that say nothing, and a directive that was given already."""
    shown, span = f".{transfer.direction.value}", transfer.span
    known = OPTIONS[transfer.direction]
    for name, count in Counter(name for name, _ in options).items():
        if name not in known:
            hint = did_you_mean(name, known) or f"the options of {shown} are {', '.join(known)}"
            diagnostics.error("option", f"{shown} has no option {name}", span, hint=hint)
        elif count > 1:
            diagnostics.error("redefinition", f"option {name} is given twice", span)
    kinds = KINDS[transfer.direction]
    if "IO" in transfer.options and kind_of(transfer.options) not in kinds:
        message = f"{shown} with IO={transfer.options['IO']} is not supported"
        diagnostics.error("option", message, span, hint=f"the kinds are {', '.join(kinds)}")
    for name in SWITCHES:
        if transfer.options.get(name, "true").lower() not in (*TRUE, *FALSE):
            message = f"option {name} is {transfer.options[name]}, neither true nor false"
            diagnostics.error("option", message, span)
    _check_order(transfer, relation, diagnostics, span)
    if any(one == transfer for one in others):
        diagnostics.error("redefinition", f"{shown} {transfer.name} is given twice", span)


def _check_order(transfer: Transfer, relation: RelationInfo, diagnostics: Diagnostics, span: Span) -> None:
    names = [column.name for column in relation.columns]
    order_by, limit = transfer.options.get("order_by"), transfer.options.get("limit")
    try:
        unknown = [name for name, _ in order_of(order_by) if name not in names] if order_by else []
    except ValueError as error:
        diagnostics.error("option", f"order_by: {error}", span)
        unknown = []
    for name in unknown:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
        diagnostics.error("option", f"order_by: {relation.name} has no column {name}", span, hint=hint)
    if limit is not None and not (limit.isascii() and limit.isdecimal()):
        diagnostics.error("option", f'limit "{limit}" is no number of rows', span)
    elif limit is not None and not order_by:
        hint = 'say which come first: order_by="..."'
        diagnostics.error("option", "a limit without order_by does not say which rows", span, hint=hint)
