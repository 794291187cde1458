"""The relations that a program names: declared ones with their columns, directives and facts, and the
catalog's.
"""

from collections.abc import Iterable
from dataclasses import field

from kpg.compiler.catalog import Catalog, did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.typing.types import TypeTable, kind_of_stored, type_name
from kpg.compiler.rules.core import Column, Kind
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type

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
