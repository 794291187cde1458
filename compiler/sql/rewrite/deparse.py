"""Deparsing: expressions and queries of definitions as Postgres prints them.

Postgres prints casts explicitly. A dump has parentheses around every operator; ``pretty`` omits the redundant
ones. An expression that the module cannot deparse keeps its source text. A name has its schema only where
the search path would not find it: a reader wants ``FROM emp``, a dump needs ``FROM public.emp``.

A rename rewrites the names in stored definitions. These are qualified (see ``name_qualification``), so no
lookup is needed. Postgres stores OIDs for the same effect.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.catalog.entries import PUBLIC, Catalog, Entry
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Field, Fields, Scope
from kpg.compiler.sql.parse.call_syntax import WRITTEN
from kpg.compiler.sql.parse.reader import parsed_expression, tree_of
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import user_name
from kpg.compiler.sql.rewrite.name_qualification import (
    Changes,
    changed,
    in_quotes,
    is_asked,
    is_local,
    literal_at,
    tree_of_text,
)
from kpg.compiler.sql.rewrite.name_qualification import spelled as qualified_spelling
from kpg.compiler.system import oids
from kpg.compiler.system.oids import quoted, shown_name
from kpg.runtime.errors import Error
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column
from kpg.runtime.types import TEXT, Type
from kpg.runtime.types import Kind as TypesKind

SIGNS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.Like: "~~",
    exp.ILike: "~~*",
    exp.JSONExtractScalar: "->>",
    exp.JSONExtract: "->",
}
WORDS: Final[dict[type[exp.Expr], str]] = {
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTime: "CURRENT_TIME",
    exp.CurrentUser: "CURRENT_USER",
    exp.SessionUser: "SESSION_USER",
    exp.Localtime: "LOCALTIME",
    exp.Localtimestamp: "LOCALTIMESTAMP",
}
NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Uuid: "gen_random_uuid",
    exp.Length: "length",
    exp.CurrentDatabase: "current_database",
    exp.CurrentSchema: "current_schema",
}
TIED: Final = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
WHOLE: Final = (TypesKind.SMALLINT, TypesKind.INTEGER, TypesKind.BIGINT)


class Unspelled(Exception):
    """There is something in an expression that is not known here."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text: ``kind`` says when it needs parentheses, ``sign`` is that of an operator."""

    text: str
    kind: str = "simple"
    sign: str = ""


def spelled(catalog: Catalog, entry: Entry | None, text: str, pretty: bool, given: Type | None = None) -> str:
    """The text of an expression over the columns of a relation, in Postgres' words.

    ``given`` is the type of a column whose DEFAULT it is.
    """
    try:
        node = parsed_expression(text)
        speller = Speller(catalog, entry, text, pretty)
        return speller.default(node, given) if given is not None else speller.piece(node).text
    except (Error, Unspelled, RecursionError):
        return text if pretty or text.startswith("(") else f"({text})"


def type_of(catalog: Catalog, entry: Entry, text: str) -> Type | None:
    """The type of an expression over the columns of a relation, if it is known."""
    try:
        return Speller(catalog, entry, text, True).type_of(parsed_expression(text))
    except Error:
        return None


class Speller:
    """Writes one expression."""

    def __init__(self, catalog: Catalog, entry: Entry | None, text: str, pretty: bool) -> None:
        self._catalog = catalog
        self._text = text
        self._pretty = pretty
        self._depth = 0
        self._binding = new_binding(text, catalog)
        columns = (
            []
            if entry is None
            else [
                (column.name, Column(self._binding.fresh(), column.type)) for column in entry.schema.columns
            ]
        )
        own = "" if entry is None else entry.name
        self._own_name = entry and entry.name
        self._scope = Scope(fields=Fields(Field(own, *column) for column in columns))
        self._rows = Scope(
            fields=Fields(Field(row, *column) for row in (own, "old", "new") for column in columns)
        )

    def default(self, node: exp.Expr, type_: Type) -> str:
        """A DEFAULT: a text is of the column's type."""
        if isinstance(node, exp.Literal) and node.is_string:
            return self._constant(node, type_).text
        if isinstance(node, exp.Null):
            return f"NULL::{self._label(type_)}"
        return self.piece(node).text

    def piece(self, node: exp.Expr) -> Piece:
        """A node of an expression."""
        match node:
            case exp.Paren():
                return self.piece(node.this)
            case exp.Literal():
                return self._constant(node, None)
            case exp.Boolean():
                return Piece("true" if node.this else "false")
            case exp.Null():
                return Piece("NULL")
            case exp.Column() if self._own_name is None and node.name.lower() == "value":
                return Piece("VALUE")
            case exp.Column():
                return Piece(".".join(quoted(part.name) for part in node.parts))
            case exp.And() | exp.Or():
                return self._together(node)
            case exp.Not():
                return self._not(node.this)
            case exp.Is() | exp.NullSafeNEQ() | exp.NullSafeEQ():
                return self._test(node)
            case exp.In():
                return self._among(node, "= ANY")
            case exp.Between():
                low = exp.GTE(this=node.this, expression=node.args["low"])
                high = exp.LTE(this=node.this, expression=node.args["high"])
                return self._together(exp.And(this=low, expression=high))
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case exp.Array():
                return Piece(f"ARRAY[{', '.join(self.piece(one).text for one in node.expressions)}]")
            case exp.Interval() if isinstance(node.this, exp.Literal) and not node.args.get("unit"):
                return Piece(f"{_text(str(node.this.this))}::interval")
            case _:
                return self._operator(node) if type(node) in SIGNS else self._call(node)

    def type_of(self, node: exp.Expr) -> Type | None:
        """The type of a part; None of a text in quotes, or if it is not known."""
        if isinstance(node, exp.Null) or (isinstance(node, exp.Literal) and node.is_string):
            return None
        scope = self._rows if any(isinstance(one, exp.Column) and one.table for one in node.walk()) else None
        try:
            return self._binding.expression(scope or self._scope, node.copy()).type
        except Error:
            return None

    def _label(self, type_: Type) -> str:
        """The name of a type in a cast."""
        if type_.kind is TypesKind.CHAR:
            return "bpchar"
        if type_.kind.value == "ARRAY":
            return f"{self._label(type_.parts[0])}[]"
        return shown_name(self._catalog, type_.name, "type") if type_.name else oids.type_facts(type_)[0]

    def _constant(self, node: exp.Literal, type_: Type | None) -> Piece:
        text = str(node.this)
        if not node.is_string:
            value, label = _number(text)
            return Piece(value if label == "integer" or "." in value else f"'{value}'::{label}")
        if type_ is None:
            return Piece(f"{_text(text)}::text")
        if type_.kind is TypesKind.BOOLEAN:
            return Piece("true" if text.lower() in ("t", "true", "yes", "on", "1", "y") else "false")
        if type_.kind in (TypesKind.INTEGER, TypesKind.DECIMAL) and not text.startswith("-"):
            return Piece(text)
        return Piece(f"{_text(text)}::{self._label(type_)}")

    def _wrapped(self, piece: Piece, parent: str, sign: str = "", first: bool = True) -> str:
        """A part within another one, in parentheses where it needs them."""
        return piece.text if not self._pretty or _is_simple(piece, parent, sign, first) else f"({piece.text})"

    def _own(self, text: str, kind: str, sign: str = "") -> Piece:
        return Piece(text if self._pretty else f"({text})", kind, sign)

    def _together(self, node: exp.Expr) -> Piece:
        """AND and OR, chains of the same flat."""
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts: list[exp.Expr] = []
        pending = [node]
        while pending:
            one = pending.pop()
            if type(one) is type(node):
                pending += [one.args["expression"], one.this]
            else:
                parts.append(one)
        texts = [self._wrapped(self.piece(one), word) for one in parts]
        return self._own(f" {word} ".join(texts), word)

    def _not(self, inner: exp.Expr) -> Piece:
        if isinstance(inner, exp.In):
            return self._among(inner, "<> ALL")
        if isinstance(inner, exp.Is):
            raise Unspelled
        return self._own(f"NOT {self._wrapped(self.piece(inner), 'NOT')}", "NOT")

    def _test(self, node: exp.Expr) -> Piece:
        left = self._wrapped(self.piece(node.this), "test")
        other = node.args["expression"]
        if not isinstance(node, exp.Is):
            said = "IS DISTINCT FROM" if isinstance(node, exp.NullSafeNEQ) else "IS NOT DISTINCT FROM"
            one, two = self._operands(node.this, other)
            return self._own(f"{self._wrapped(one, 'op')} {said} {self._wrapped(two, 'op')}", "test")
        if not isinstance(other, exp.Null | exp.Boolean):
            raise Unspelled
        word = self.piece(other).text.upper()
        return self._own(f"{left} IS {'NOT ' if node.args.get('negate') else ''}{word}", "test")

    def _among(self, node: exp.In, sign: str) -> Piece:
        """IN: one of an array's."""
        listed = node.expressions
        if not listed or node.args.get("query") is not None:
            raise Unspelled
        if len(listed) == 1:
            made = exp.EQ if sign == "= ANY" else exp.NEQ
            return self._operator(made(this=node.this, expression=listed[0]))
        type_ = self.type_of(node.this)
        left = self._text_of(self.piece(node.this), type_)
        values = [
            self._constant(one, type_) if isinstance(one, exp.Literal) and one.is_string else self.piece(one)
            for one in listed
        ]
        made_array = f"ARRAY[{', '.join(one.text for one in values)}]"
        varying = type_ is not None and type_.kind is TypesKind.VARCHAR and type_.precision
        if varying:
            made_array = f"{made_array}::text[]" if self._pretty else f"({made_array})::text[]"
        return self._own(f"{self._wrapped(left, 'op')} {sign} ({made_array})", "among")

    def _text_of(self, piece: Piece, type_: Type | None) -> Piece:
        """What operators of text take: of a VARCHAR its text."""
        if type_ is not None and type_.kind is TypesKind.VARCHAR and type_.precision:
            return self._casted(piece, "text")
        return piece

    def _casted(self, piece: Piece, label: str) -> Piece:
        inner = self._wrapped(piece, "cast") if self._pretty else f"({piece.text})"
        return Piece(f"{inner}::{label}", "cast" if piece.kind == "simple" else piece.kind)

    def _operands(self, one: exp.Expr, two: exp.Expr) -> tuple[Piece, Piece]:
        """Both sides of an operator, as one of the types that there is one of."""
        types = self.type_of(one), self.type_of(two)
        return self._operand(one, types[0], types[1]), self._operand(two, types[1], types[0])

    def _operand(self, node: exp.Expr, own: Type | None, other: Type | None) -> Piece:
        if isinstance(node, exp.Literal) and node.is_string:
            plain = TEXT if other is None or (other.is_text and other.kind is TypesKind.VARCHAR) else other
            return self._constant(node, plain)
        piece = self._text_of(self.piece(node), own)
        if own is None or other is None or own.kind is other.kind:
            return piece
        if own.kind in WHOLE or own.kind is TypesKind.DECIMAL:
            if other.kind in (TypesKind.DOUBLE, TypesKind.REAL):
                return self._casted(piece, "double precision")
            if own.kind in WHOLE and other.kind in (TypesKind.DECIMAL, TypesKind.NUMERIC):
                return self._casted(piece, "numeric")
        return piece

    def _operator(self, node: exp.Expr) -> Piece:
        sign, right_node = SIGNS[type(node)], node.args["expression"]
        if node.args.get("escape") or isinstance(right_node, exp.Any | exp.All | exp.Subquery):
            raise Unspelled
        if node.args.get("negate"):
            sign = f"!{sign}"
        if sign in ("->", "->>") and not isinstance(right_node, exp.Literal):
            raise Unspelled
        if sign in ("->", "->>"):
            left, right = self.piece(node.this), self.piece(right_node)
        elif sign == "||":
            left, right = (
                self._text_of(self.piece(one), self.type_of(one)) for one in (node.this, right_node)
            )
        else:
            left, right = self._operands(node.this, right_node)
        text = f"{self._wrapped(left, 'op', sign)} {sign} {self._wrapped(right, 'op', sign, False)}"
        return self._own(text, "op", sign)

    def _negative(self, node: exp.Neg) -> Piece:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            value, label = _number(str(node.this.this))
            return Piece(f"'-{value}'::{label}")
        return self._own(f"- {self._wrapped(self.piece(node.this), 'op', '-', False)}", "op", "-")

    def _cast(self, node: exp.Cast) -> Piece:
        type_ = self.type_of(node)
        if type_ is None or type(node) is not exp.Cast:
            raise Unspelled
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string and not type_.precision:
            return self._constant(inner, type_)
        modified = oids.modified(oids.type_facts(type_)[2], oids.modifier(type_))
        piece = Piece(self._quoted(inner)) if isinstance(inner, exp.Literal) else self.piece(inner)
        if isinstance(inner, exp.Array) and not inner.expressions:
            return Piece(f"ARRAY[]::{self._label(type_)}")
        return self._casted(piece, modified or self._label(type_).replace("bpchar", "character(1)"))

    def _quoted(self, node: exp.Literal) -> str:
        return f"{_text(str(node.this))}" if node.is_string else str(node.this)

    def _case(self, node: exp.Case) -> Piece:
        self._depth += 1
        margin, lines = "    " * self._depth, ["\n" + "    " * (self._depth - 1) + "CASE"]
        if node.this is not None:
            raise Unspelled
        for one in node.args["ifs"]:
            value = self.piece(one.args["true"]).text
            lines.append(f"{margin}WHEN {self.piece(one.this).text} THEN {value}")
        last = node.args.get("default")
        lines += [f"{margin}ELSE {self.piece(last).text}"] if last is not None else []
        self._depth -= 1
        return Piece("\n".join([*lines, "    " * self._depth + "END"]))

    def _call(self, node: exp.Expr) -> Piece:
        if type(node) in WORDS and not node.this:
            return Piece(WORDS[type(node)])
        if isinstance(node, exp.CurrentTimestamp):
            return Piece("now()" if "now" in self._text.lower() else "CURRENT_TIMESTAMP")
        if isinstance(node, exp.Extract):
            unit = str(node.this.this).lower()
            return Piece(f"EXTRACT({unit} FROM {self.piece(node.args['expression']).text})")
        schema = ""
        if isinstance(node, exp.Dot) and isinstance(node.args["expression"], exp.Anonymous):
            schema, node = node.this.name, node.args["expression"]
        if isinstance(node, exp.Anonymous):
            name, args = str(node.this).lower(), list(node.expressions)
        elif type(node) in NAMES:
            name, args = str(node.meta.get(WRITTEN) or NAMES[type(node)]), [node.this] if node.this else []
        else:
            raise Unspelled
        return Piece(self._called(f"{schema}.{name}" if schema else name, args))

    def _called(self, name: str, args: Sequence[exp.Expr]) -> str:
        if name in ("nextval", "currval") and (called := args[0].find(exp.Literal)) is not None:
            sequence = self._catalog.find_sequence(str(called.this).replace('"', ""))
            whole = shown_name(self._catalog, sequence.name, "relation") if sequence else str(called.this)
            return f"{name}({_text(whole)}::regclass)"
        if name in ("coalesce", "greatest", "least", "nullif"):
            types = [one for one in map(self.type_of, args) if one is not None]
            listed = [self._operand(one, self.type_of(one), types[0] if types else None).text for one in args]
            return f"{name.upper()}({', '.join(listed)})"
        routines = self._catalog.routines.get(name.removeprefix("public."))
        shown = shown_name(self._catalog, routines[0].name, "function") if routines else name
        listed = [self._text_of(self.piece(one), self.type_of(one)).text for one in args]
        return f"{shown}({', '.join(listed)})"


def _is_simple(piece: Piece, parent: str, sign: str, first: bool) -> bool:
    """Whether a part needs no parentheses where it stands."""
    if piece.kind in ("simple", "cast"):
        return True
    if piece.kind == "op" and parent == "op" and piece.sign in TIED and sign in TIED:
        mine, its = TIED[piece.sign], TIED[sign]
        return mine > its or (mine == its and first)
    if piece.kind in ("op", "test"):
        return parent in ("AND", "OR", "NOT")
    if piece.kind in ("AND", "NOT"):
        return parent in ("AND", "OR")
    return piece.kind == "OR" and parent == "OR"


def _number(text: str) -> tuple[str, str]:
    """The digits of a number and its type, as Postgres prints them: without an exponent."""
    value = Decimal(text)
    if not text.isdecimal() or value >= 2**63:
        return f"{value:f}", "numeric"
    return text, "integer" if value < 2**31 else "bigint"


def _text(text: str) -> str:
    """A text in quotes."""
    plain = text.replace("'", "''")
    return f"E'{plain.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{plain}'"


def placed(catalog: Catalog, text: str) -> str:
    """The text with whole names where these are needed."""
    try:
        tree = tree_of(tokenize(text), text)
    except Error:
        return text
    changes: Changes = {}
    for call in tree.find_all(exp.Anonymous):
        _function(catalog, call, text, changes)
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not is_local(node):
            _relation(catalog, node, changes)
    return changed(text, changes)


def _relation(catalog: Catalog, node: exp.Table, changes: Changes) -> None:
    schema, name = node.args.get("db"), node.this
    start, end = (schema or name).meta.get("start"), name.meta.get("end")
    entry = catalog.find(relation_name(node)) or catalog.find(f"public.{name.name}")
    if entry is not None and start is not None and end is not None:
        shown = shown_name(catalog, entry.name, "relation")
        if "." in shown or schema is not None:
            changes[start] = (end + 1, shown)


def _function(catalog: Catalog, node: exp.Anonymous, text: str, changes: Changes) -> None:
    name = str(node.this).lower()
    schema = node.parent.this if isinstance(node.parent, exp.Dot) else None
    whole = f"{schema.name}.{name}" if isinstance(schema, exp.Identifier) else name
    routines = catalog.whole_routines(whole)
    start, at = (schema or node).meta.get("start"), node.meta.get("start")
    if routines and start is not None and at is not None and text[at : at + len(name)].lower() == name:
        shown = shown_name(catalog, routines[0].name, "function")
        if "." in shown or schema is not None:
            changes[start] = (at + len(name), shown)


Kind = str
Names = Mapping[tuple[Kind, str], str]
"""New names by kind (RELATION, SEQUENCE, TYPE, FUNCTION) and whole name in lower case."""
RELATION: Final = "RELATION"
SEQUENCE: Final = "SEQUENCE"
TYPE: Final = "TYPE"
FUNCTION: Final = "FUNCTION"


def with_names(text: str, names: Names) -> str:
    """A text with other names in the place of some."""
    lower = text.lower()
    if not any(name.rpartition(".")[2] in lower for _, name in names):
        return text
    tree, offset = tree_of_text(text)
    if tree is None:
        return text
    renaming = _Renaming(names, text, offset, tree)
    for node in tree.walk():
        renaming.note(node)
    return changed(text, renaming.changes)


class _Renaming:
    """Finds what of a text is to be replaced; its nodes say places from ``offset`` on."""

    def __init__(self, names: Names, text: str, offset: int, tree: exp.Expr) -> None:
        self._names = names
        self._text = text
        self._offset = offset
        self._qualified = {
            (one.table or one.name).lower() for one in tree.find_all(exp.Column) if not one.args.get("db")
        } | {one.table.lower() for one in tree.find_all(exp.Column) if one.args.get("db")}
        self.changes: Changes = {}

    def _new(self, name: str, *kinds: Kind) -> str | None:
        whole = name.lower().removeprefix(f"{PUBLIC}.")
        return next((self._names[kind, whole] for kind in kinds if (kind, whole) in self._names), None)

    def note(self, node: exp.Expr) -> None:
        """Note what a node names."""
        match node:
            case exp.Table(this=exp.Identifier()):
                self._table(node)
            case exp.Column(args={"db": exp.Identifier() as schema, "table": exp.Identifier() as table}):
                if self._new(f"{schema.name}.{table.name}", RELATION) is not None:
                    self._put(schema, table, self._alias(table.name))
            case exp.Anonymous():
                schema = _schema_of(node)
                whole = f"{schema.name}.{node.this}" if schema is not None else str(node.this)
                new = self._new(whole, FUNCTION)
                if new is not None:
                    self._put(schema or node, node, qualified_spelling(new))
            case exp.DataType(args={"kind": exp.Expr() as kind}):
                new = self._new(user_name(kind), TYPE, RELATION)
                if new is not None:
                    first, last = (kind.this, kind.expression) if isinstance(kind, exp.Dot) else (kind, kind)
                    self._put(first, last, qualified_spelling(new))
            case exp.Literal() if node.is_string and is_asked(node):
                place = literal_at(node, self._text, self._offset)
                new = self._new(node.name.replace('"', ""), SEQUENCE, RELATION)
                if new is not None and place is not None:
                    self.changes[place[0]] = (place[1], in_quotes(new))

    def _table(self, node: exp.Table) -> None:
        schema = node.args.get("db")
        if schema is None and is_local(node):
            return
        plain = node.name
        new = self._new(f"{schema.name}.{plain}" if schema is not None else plain, RELATION)
        if new is None:
            return
        shown = qualified_spelling(new)
        known = node.args.get("alias") is not None
        if not known and plain.lower() in self._qualified and new.rpartition(".")[2] != plain:
            shown += f" AS {self._alias(plain)}"  # columns are named by it
        self._put(schema or node.this, node.this, shown)

    @staticmethod
    def _alias(plain: str) -> str:

        return quoted(plain)

    def _put(self, first: exp.Expr, last: exp.Expr, shown: str) -> None:
        if "start" in first.meta and "end" in last.meta:
            start = first.meta["start"] - self._offset
            self.changes[start] = (last.meta["end"] + 1 - self._offset, shown)


def _schema_of(node: exp.Anonymous) -> Any:
    """The identifier of the schema of a function that is called, None without one."""
    above = node.parent
    if isinstance(above, exp.Dot) and above.expression is node:
        return above.this if isinstance(above.this, exp.Identifier) else None
    return above.args.get("db") if isinstance(above, exp.Table) else None
