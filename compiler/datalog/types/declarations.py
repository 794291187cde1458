"""Declared types and relations: the subtype order, columns, and the options of directives.

A type's *kind* determines how values are stored and which operations apply. Its name determines
with which types it can be mixed: a value of a type is also a value of its supertypes. A base type
is the top of its kind. Relations include those of the catalog. :func:`check_transfer` checks the
options of ``.input``, ``.output`` and ``.printsize``.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, assert_never

from kpg.compiler.catalog.entries import Catalog, did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.rules.core import Column, Domain, Kind, Structure, Transfer, TransferKind, ValueType
from kpg.runtime.errors import Span
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, decimal


@dataclass(frozen=True, slots=True)
class TypeKind:
    """The storage and the operations of a type's values.

    ``structure`` names the record type or ADT.
    """

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
    """The relation between the kinds of a functor's arguments and its result."""

    SAME = "the arguments and the result are of one kind"
    FIXED = "every argument and the result have their kind"
    CONVERT = "one argument of some kinds"


@dataclass(frozen=True, slots=True)
class Functor:
    """The signature of a functor.

    ``domains`` are the domains of the arguments (SAME, CONVERT).
    """

    name: str
    scheme: Scheme
    min_args: int
    max_args: int
    domains: frozenset[Domain] = frozenset()
    args: tuple[TypeKind, ...] = ()
    result: TypeKind | None = None


NUMBER = TypeKind(Domain.NUMBER, BIGINT)
UNSIGNED = TypeKind(Domain.UNSIGNED, BIGINT)
FLOAT = TypeKind(Domain.FLOAT, DOUBLE)
SYMBOL = TypeKind(Domain.SYMBOL, TEXT)
CONDITION = TypeKind(Domain.SQL, BOOLEAN)
BASE_TYPES: Mapping[str, TypeKind] = {
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
"""Predefined types, including FlowLog's names."""
TYPE_NAMES = ("number", "unsigned", "float", "symbol", "date", "timestamp", "boolean")
RESERVED_TYPE_NAMES = ("number", "unsigned", "float", "symbol")
"""Type names that a Soufflé program cannot define."""
FOREIGN_TYPE_NAMES = {
    "int": "number",
    "integer": "number",
    "bigint": "number",
    "text": "symbol",
    "varchar": "symbol",
    "double": "float",
    "real": "float",
}
"""Names of the base types in other languages, for hints."""


def kind_of_sql_type(type_: Type) -> TypeKind:
    """Return the Datalog kind of a SQL type.

    Integers, floats and texts have base kinds.
    """
    if type_.is_integer:
        return NUMBER
    if type_.is_float:
        return FLOAT
    if type_.is_text:
        return SYMBOL
    return TypeKind(Domain.SQL, type_)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of an ADT, or the single branch of a record type, with names and types of its fields."""

    structure: str
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class TypeTable:
    """The types of a program, by name."""

    kinds: dict[str, TypeKind] = field(default_factory=lambda: dict(BASE_TYPES))
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    records: dict[str, Branch] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    functors: dict[str, Functor] = field(default_factory=dict)
    functions: dict[str, UserFunctionName[ScalarFunction]] = field(default_factory=dict)
    """Callable functions by name: functions of the database, and those of declared functors."""
    folds: dict[str, TypeKind] = field(default_factory=dict)
    """Kinds of the operand and result of user-defined aggregates."""
    redefined_names: set[str] = field(default_factory=set)
    """Names of ``BASE_TYPES`` that the program redefines, such as ``string`` in Soufflé."""
    is_legacy: bool = False
    """Whether heads accept any value of a column's kind, whatever its declared type (``--legacy``)."""

    def value_type(self, name: str) -> ValueType:
        """Return the column type for a type's name."""
        kind = self.kinds[name]
        return ValueType(name, kind.domain, kind.type)

    def leaves(self, name: str) -> frozenset[str]:
        """Return the member types of a union, or the type itself."""
        members = self.members.get(name)
        if members is None:
            return frozenset((name,))
        return frozenset(leaf for member in members for leaf in self.leaves(member))

    def is_subtype(self, lower: str, upper: str) -> bool:
        """Return whether every value of ``lower`` is a value of ``upper``."""
        return all(
            any(self._is_leaf_below(leaf, target) for target in self.leaves(upper))
            for leaf in self.leaves(lower)
        )

    def _is_leaf_below(self, leaf: str, target: str) -> bool:
        is_base = target in BASE_TYPES and target not in self.redefined_names
        if leaf == target or (is_base and self.kinds[leaf] == BASE_TYPES[target]):
            return True
        base = self.bases.get(leaf)
        return base is not None and any(self._is_leaf_below(part, target) for part in self.leaves(base))

    def meet(self, left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
        """Return the types of values that have a type of ``left`` and one of ``right``, or an empty set."""
        lefts = frozenset(leaf for name in left for leaf in self.leaves(name))
        rights = frozenset(leaf for name in right for leaf in self.leaves(name))
        lower = frozenset(a for a in lefts if any(self._is_leaf_below(a, b) for b in rights))
        return lower | frozenset(b for b in rights if any(self._is_leaf_below(b, a) for a in lefts))

    def structures(self) -> dict[str, Structure]:
        """Return the record types and ADTs, by all of their names."""
        found: dict[str, dict[str, tuple[tuple[str, ValueType], ...]]] = {}
        for branch in (*self.records.values(), *self.branches.values()):
            fields = tuple((name, self.value_type(type_)) for name, type_ in branch.fields)
            found.setdefault(branch.structure, {})[branch.name] = fields
        by_name = {name: Structure(name, branches) for name, branches in found.items()}
        return {
            name: by_name[kind.structure] for name, kind in self.kinds.items() if kind.structure in by_name
        }


def declare_types(declarations: Iterable[ast.TypeDeclaration], diagnostics: Diagnostics) -> TypeTable:
    """Return the table of declared types.

    Faulty types are reported, and omitted or treated as numbers.
    """
    table = TypeTable()
    declared: dict[str, ast.TypeDeclaration] = {}
    for declaration in declarations:
        name = declaration.name
        if name.text in RESERVED_TYPE_NAMES or name.text in declared:
            diagnostics.error("redefinition", f"type {name} is already defined", name.span)
        else:
            declared[name.text] = declaration
            if table.kinds.pop(name.text, None) is not None:
                table.redefined_names.add(name.text)
    run = _TypeDeclarer(table, declared, diagnostics)
    for text in declared:
        run.declare(text, ())
    for declaration in declared.values():
        run.declare_fields(declaration)
    return table


@dataclass(slots=True)
class _TypeDeclarer:
    table: TypeTable
    declarations: Mapping[str, ast.TypeDeclaration]
    diagnostics: Diagnostics

    def declare(self, name: str, path: tuple[str, ...]) -> TypeKind:
        """Return the kind of a declared type, and enter it into the table."""
        if name in self.table.kinds:
            return self.table.kinds[name]
        declaration = self.declarations[name]
        if name in path:
            message = f"type {name} is defined by itself"
            self.diagnostics.error("type", message, declaration.name.span)
            return NUMBER
        match declaration:
            case ast.RecordType():
                kind = TypeKind(Domain.RECORD, TEXT, name)
            case ast.AdtType():
                kind = TypeKind(Domain.ADT, TEXT, name)
            case ast.Subtype(base=base):
                kind = self._reference(base, (*path, name))
                if kind.structure:
                    what = "record" if kind.domain is Domain.RECORD else "ADT"
                    message = f"{name} cannot be a subtype of {base.name}, a type of {what}s"
                    hint = f"another name for it is .type {name} = {base.name}"
                    self.diagnostics.error("type", message, base.name.span, hint=hint)
                base_declaration = self.declarations.get(base.name.text)
                if isinstance(base_declaration, ast.UnionType) and len(base_declaration.members) > 1:
                    message = f"{name} cannot be a subtype of {base.name}, a union"
                    hint = f"of which kind? .type {name} <: {kind}"
                    self.diagnostics.error("type", message, base.name.span, hint=hint)
                self.table.bases[name] = self.type_name(base)
            case ast.UnionType(members=members):
                kind = self._union(declaration, members, (*path, name))
            case _:
                assert_never(declaration)
        self.table.kinds[name] = kind
        return kind

    def _union(
        self, declaration: ast.UnionType, members: tuple[ast.TypeRef, ...], path: tuple[str, ...]
    ) -> TypeKind:
        errors = self.diagnostics.error_count
        kinds = {member.name.text: self._reference(member, path) for member in members}
        if len(set(kinds.values())) > 1 and errors == self.diagnostics.error_count:
            kinds_text = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
            message = f"union type {declaration.name} has members of different kinds: {kinds_text}"
            self.diagnostics.error("type", message, declaration.span)
        elif errors == self.diagnostics.error_count:
            spelled = tuple(dict.fromkeys(self.type_name(member) for member in members))
            self.table.members[declaration.name.text] = spelled
        return next(iter(kinds.values()))

    def _reference(self, reference: ast.TypeRef, path: tuple[str, ...]) -> TypeKind:
        name = reference.name.text
        if name == "decimal" and name not in self.declarations:
            return self._decimal(reference)
        if name in self.declarations or name in BASE_TYPES:
            return self.declare(name, path)
        self.report_undefined(reference.name)
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

    def report_undefined(self, name: ast.Name) -> None:
        """Report that a type is not defined."""
        other = FOREIGN_TYPE_NAMES.get(name.text.lower())
        hint = (
            f'did you mean "{other}"?'
            if other
            else did_you_mean(name.text, (*TYPE_NAMES, *self.declarations))
        )
        self.diagnostics.error("undefined", f"type {name} is not defined", name.span, hint=hint)

    def type_name(self, reference: ast.TypeRef) -> str:
        """Return the name of a referenced type, or ``number`` if it is not defined."""
        name = reference.name.text
        if name == "decimal" and name not in self.declarations:
            return f"decimal{reference.arguments or (18, 0)}"
        return name if name in self.declarations or name in BASE_TYPES else "number"

    def declare_fields(self, declaration: ast.TypeDeclaration) -> None:
        """Enter the fields of a record type or ADT."""
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
            fields[attribute.name.text] = self.type_name(attribute.type)
        return Branch(structure, name, tuple(fields.items()))


def resolve_type(reference: ast.TypeRef, table: TypeTable, diagnostics: Diagnostics) -> str:
    """Return the name in the table of a referenced type.

    An undefined one is reported and becomes ``number``.
    """
    run = _TypeDeclarer(table, {}, diagnostics)
    name = reference.name.text
    if name in table.kinds and not reference.arguments:
        return name
    if name == "decimal":
        kind = run._decimal(reference)
        return str(kind).replace("DECIMAL", "decimal")
    other = FOREIGN_TYPE_NAMES.get(name.lower())
    hint = f'did you mean "{other}"?' if other else did_you_mean(name, table.kinds)
    diagnostics.error("undefined", f"type {name} is not defined", reference.name.span, hint=hint)
    return "number"


STORAGE_QUALIFIERS = frozenset({"brie", "btree", "btree_delete", "provenance", "suppressed"})
"""Qualifiers of storage and display, which are accepted and have no effect."""
TRANSFER_QUALIFIERS = frozenset({"input", "output", "printsize"})
"""Deprecated qualifiers that stand for a directive."""


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
    """Relations by name.

    Those of the catalog are entered when they are first looked up. The program may declare the names
    in ``own`` although the catalog has them.
    """

    catalog: Catalog
    types: TypeTable
    diagnostics: Diagnostics
    own: frozenset[str] = frozenset()
    by_name: dict[str, RelationInfo] = field(default_factory=dict)
    undefined_names: set[str] = field(default_factory=set)

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
                old = self.by_name.get(name.text)
                if old is not None:
                    notes = (("it was defined here:", old.span),)
                    message = f"relation {name} is already defined"
                    self.diagnostics.error("redefinition", message, name.span, notes=notes)
                elif name.text in self.catalog and name.text not in self.own:
                    message = f"{name} is a relation of the database already"
                    hint = "rules can name it without a declaration"
                    self.diagnostics.error("redefinition", message, name.span, hint=hint)
                else:
                    info = RelationInfo(name.text, columns, name.span, qualifiers=qualifiers, keys=keys)
                    self.by_name[name.text] = info

    def _columns(self, declaration: ast.Declaration) -> tuple[Column, ...]:
        columns: list[Column] = []
        for attribute in declaration.attributes:
            name = attribute.name
            if any(column.name == name.text for column in columns):
                self.diagnostics.error("redefinition", f"column {name} is already defined", name.span)
            type_ = self.types.value_type(resolve_type(attribute.type, self.types, self.diagnostics))
            columns.append(Column(name.text, type_, type_.type))
        return tuple(columns)

    def _qualifiers(self, declaration: ast.Declaration, arity: int) -> frozenset[str]:
        found: set[str] = set()
        for name in declaration.qualifiers:
            if name.text in found:
                self.diagnostics.error("redefinition", f"{name} is given twice", name.span)
            found.add(name.text)
            if name.text in TRANSFER_QUALIFIERS and not self.types.is_legacy:
                hint = f"write .{name} {declaration.names[0]}"
                message = f"deprecated qualifier {name}"
                self.diagnostics.warning("deprecated", message, name.span, hint=hint)
            if name.text == "eqrel" and arity != 2:
                message = f"equivalence relation {declaration.names[0]} has {plural(arity, 'column')}, not 2"
                self.diagnostics.error("arity", message, name.span)
        stored = [name for name in declaration.qualifiers if name.text in (*STORAGE_QUALIFIERS, "eqrel")]
        if len({name.text for name in stored} & {"brie", "btree", "btree_delete", "eqrel"}) > 1:
            names_text = " and ".join(name.text for name in stored)
            self.diagnostics.error("inline", f"qualifiers {names_text} contradict each other", stored[1].span)
        for one, other in (("inline", "no_inline"), ("magic", "no_magic"), ("inline", "eqrel")):
            if {one, other} <= found:
                message = f"qualifiers {one} and {other} contradict each other"
                self.diagnostics.error("inline", message, declaration.span)
        return frozenset(found - STORAGE_QUALIFIERS)

    def _keys(
        self, declaration: ast.Declaration, columns: tuple[Column, ...], qualifiers: frozenset[str]
    ) -> tuple[tuple[int, ...], ...]:
        """Return the columns of each choice-domain."""
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
        """Return the relation of a name, or report that it is not defined."""
        info = self.by_name.get(name.text)
        if info is not None:
            return info
        entry = self.catalog.find(name.text)
        if entry is None:
            self.undefined_names.add(name.text)
            names = (*self.by_name, *(known.name for known in self.catalog))
            message = f"relation {name} is not defined"
            self.diagnostics.error("undefined", message, name.span, hint=did_you_mean(name.text, names))
            return None
        columns = tuple(
            self._external(column.name, column.type, column.nullable) for column in entry.schema.columns
        )
        info = RelationInfo(entry.name, columns, None, Kind.EXTERNAL)
        self.by_name[name.text] = info
        return info

    def _external(self, name: str, stored: Type, nullable: bool) -> Column:
        kind = kind_of_sql_type(stored)
        known = f"{kind} of SQL" if str(kind) in self.types.redefined_names else str(kind)
        self.types.kinds.setdefault(known, kind)
        return Column(name, self.types.value_type(known), stored, nullable)


COMMON_OPTIONS: Final = ("IO", "name", "filename", "dbname", "delimiter", "headers", "rfc4180", "compress")
OPTIONS: Final[Mapping[TransferKind, tuple[str, ...]]] = {
    TransferKind.INPUT: (*COMMON_OPTIONS, "columns", "format"),
    TransferKind.OUTPUT: (
        *COMMON_OPTIONS,
        "format",
        "attributeNames",
        "quotes",
        "order_by",
        "limit",
        "nullary",
    ),
    TransferKind.PRINTSIZE: ("IO",),
}
IO_KINDS: Final[Mapping[TransferKind, tuple[str, ...]]] = {
    TransferKind.INPUT: ("file", "stdin", "csv", "parquet", "spark", "sqlite", "json", "jsonfile", "command"),
    TransferKind.OUTPUT: (
        "file",
        "stdout",
        "stdoutprintsize",
        "csv",
        "parquet",
        "sqlite",
        "json",
        "jsonfile",
    ),
    TransferKind.PRINTSIZE: ("stdout", "stdoutprintsize"),
}
"""Values of the option IO, in any case.

``csv`` is the same as ``file``.
"""
IO_ALIASES: Final[Mapping[str, str]] = {"cmd": "command"}
"""Aliases of IO kinds."""
SWITCHES: Final = ("headers", "rfc4180", "compress", "quotes")
TRUE: Final = ("true", "1", "yes")
FALSE: Final = ("false", "0", "no")


def io_kind(options: Mapping[str, str]) -> str:
    """Return the kind of IO."""
    kind = options.get("IO", "file").lower()
    return IO_ALIASES.get(kind, kind)


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Return whether a switch is on.

    The default is off.
    """
    return options.get(name, "false").lower() in TRUE


def parse_order_by(order_by: str) -> list[tuple[str, bool]]:
    """Return the columns of ``order_by``, and whether each is ascending.

    Raises ValueError if the text is malformed.
    """
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
    """Report unknown and invalid options, and duplicate directives."""
    directive, span = f".{transfer.direction.value}", transfer.span
    known = OPTIONS[transfer.direction]
    for name, count in Counter(name for name, _ in options).items():
        if name not in known:
            hint = did_you_mean(name, known) or f"the options of {directive} are {', '.join(known)}"
            diagnostics.error("option", f"{directive} has no option {name}", span, hint=hint)
        elif count > 1:
            diagnostics.error("redefinition", f"option {name} is given twice", span)
    kinds = IO_KINDS[transfer.direction]
    if "IO" in transfer.options and io_kind(transfer.options) not in kinds:
        message = f"{directive} with IO={transfer.options['IO']} is not supported"
        diagnostics.error("option", message, span, hint=f"the kinds are {', '.join(kinds)}")
    for name in SWITCHES:
        if transfer.options.get(name, "true").lower() not in (*TRUE, *FALSE):
            message = f"option {name} is {transfer.options[name]}, neither true nor false"
            diagnostics.error("option", message, span)
    _check_order(transfer, relation, diagnostics, span)
    if any(other == transfer for other in others):
        diagnostics.error("redefinition", f"{directive} {transfer.name} is given twice", span)


def _check_order(transfer: Transfer, relation: RelationInfo, diagnostics: Diagnostics, span: Span) -> None:
    names = [column.name for column in relation.columns]
    order_by, limit = transfer.options.get("order_by"), transfer.options.get("limit")
    try:
        unknown = [name for name, _ in parse_order_by(order_by) if name not in names] if order_by else []
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
