"""Declared types: subtypes, unions, records and ADTs, and the order among them.

A type's *kind* decides how its values are stored and what can be done with them; its name, what it may be
mixed with: a value of a type is one of the types above it too, and a base type is above all of its kind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, assert_never

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.rules.core import Domain, Structure, ValueType
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, decimal

if TYPE_CHECKING:
    from kpg.compiler.datalog.typing.functors import Functor


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
    functors: "dict[str, Functor]" = field(default_factory=dict)
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
