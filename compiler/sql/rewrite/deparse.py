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
from kpg.compiler.sql.parse.call_syntax import SOURCE_NAME
from kpg.compiler.sql.parse.reader import parse_expression, parse_tree
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.compiler.sql.parse.type_names import user_type_name
from kpg.compiler.sql.rewrite.name_qualification import (
    Replacements,
    apply_replacements,
    is_cte_reference,
    is_sequence_argument,
    literal_offsets,
    parse_text,
    qualified_literal,
)
from kpg.compiler.sql.rewrite.name_qualification import quote_if_needed as qualified_spelling
from kpg.compiler.system import oids
from kpg.compiler.system.oids import display_name, quote_identifier
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
PRECEDENCE: Final = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
INTEGER_KINDS: Final = (TypesKind.SMALLINT, TypesKind.INTEGER, TypesKind.BIGINT)


class NotDeparsableError(Exception):
    """Raised for an expression that the module cannot deparse."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Deparsed expression: ``kind`` tells when it needs parentheses, ``sign`` is its operator."""

    text: str
    kind: str = "simple"
    sign: str = ""


def deparse(
    catalog: Catalog, entry: Entry | None, text: str, pretty: bool, column_type: Type | None = None
) -> str:
    """Return the text of an expression over the columns of a relation, as Postgres prints it.

    ``column_type`` is the type of the column if the expression is its DEFAULT. An expression that
    cannot be deparsed keeps its text.
    """
    try:
        node = parse_expression(text)
        deparser = Deparser(catalog, entry, text, pretty)
        return (
            deparser.default(node, column_type) if column_type is not None else deparser.fragment(node).text
        )
    except (Error, NotDeparsableError, RecursionError):
        return text if pretty or text.startswith("(") else f"({text})"


def expression_type(catalog: Catalog, entry: Entry, text: str) -> Type | None:
    """Return the type of an expression over the columns of a relation; None if it does not bind."""
    try:
        return Deparser(catalog, entry, text, True).type_of(parse_expression(text))
    except Error:
        return None


class Deparser:
    """Deparser of one expression."""

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
                (column.name, Column(self._binding.new_id(), column.type)) for column in entry.schema.columns
            ]
        )
        own = "" if entry is None else entry.name
        self._own_name = entry and entry.name
        self._scope = Scope(fields=Fields(Field(own, *column) for column in columns))
        self._rows = Scope(
            fields=Fields(Field(row, *column) for row in (own, "old", "new") for column in columns)
        )

    def default(self, node: exp.Expr, type_: Type) -> str:
        """Return a DEFAULT's text; a string constant gets the column's type."""
        if isinstance(node, exp.Literal) and node.is_string:
            return self._constant(node, type_).text
        if isinstance(node, exp.Null):
            return f"NULL::{self._type_label(type_)}"
        return self.fragment(node).text

    def fragment(self, node: exp.Expr) -> Fragment:
        """Return the deparsed form of a node."""
        match node:
            case exp.Paren():
                return self.fragment(node.this)
            case exp.Literal():
                return self._constant(node, None)
            case exp.Boolean():
                return Fragment("true" if node.this else "false")
            case exp.Null():
                return Fragment("NULL")
            case exp.Column() if self._own_name is None and node.name.lower() == "value":
                return Fragment("VALUE")
            case exp.Column():
                return Fragment(".".join(quote_identifier(part.name) for part in node.parts))
            case exp.And() | exp.Or():
                return self._logical(node)
            case exp.Not():
                return self._not(node.this)
            case exp.Is() | exp.NullSafeNEQ() | exp.NullSafeEQ():
                return self._test(node)
            case exp.In():
                return self._in_list(node, "= ANY")
            case exp.Between():
                low = exp.GTE(this=node.this, expression=node.args["low"])
                high = exp.LTE(this=node.this, expression=node.args["high"])
                return self._logical(exp.And(this=low, expression=high))
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case exp.Array():
                return Fragment(f"ARRAY[{', '.join(self.fragment(one).text for one in node.expressions)}]")
            case exp.Interval() if isinstance(node.this, exp.Literal) and not node.args.get("unit"):
                return Fragment(f"{_string_literal(str(node.this.this))}::interval")
            case _:
                return self._operator(node) if type(node) in SIGNS else self._call(node)

    def type_of(self, node: exp.Expr) -> Type | None:
        """Return the type of a node; None for a string constant, or if it does not bind."""
        if isinstance(node, exp.Null) or (isinstance(node, exp.Literal) and node.is_string):
            return None
        scope = self._rows if any(isinstance(one, exp.Column) and one.table for one in node.walk()) else None
        try:
            return self._binding.expression(scope or self._scope, node.copy()).type
        except Error:
            return None

    def _type_label(self, type_: Type) -> str:
        """Return the name of a type in a cast."""
        if type_.kind is TypesKind.CHAR:
            return "bpchar"
        if type_.kind.value == "ARRAY":
            return f"{self._type_label(type_.parts[0])}[]"
        return display_name(self._catalog, type_.name, "type") if type_.name else oids.type_facts(type_)[0]

    def _constant(self, node: exp.Literal, type_: Type | None) -> Fragment:
        text = str(node.this)
        if not node.is_string:
            value, label = _number(text)
            return Fragment(value if label == "integer" or "." in value else f"'{value}'::{label}")
        if type_ is None:
            return Fragment(f"{_string_literal(text)}::text")
        if type_.kind is TypesKind.BOOLEAN:
            return Fragment("true" if text.lower() in ("t", "true", "yes", "on", "1", "y") else "false")
        if type_.kind in (TypesKind.INTEGER, TypesKind.DECIMAL) and not text.startswith("-"):
            return Fragment(text)
        return Fragment(f"{_string_literal(text)}::{self._type_label(type_)}")

    def _parenthesize(self, piece: Fragment, parent: str, sign: str = "", is_left: bool = True) -> str:
        """Return a part's text, in parentheses where its parent requires them."""
        return (
            piece.text
            if not self._pretty or _needs_no_parentheses(piece, parent, sign, is_left)
            else f"({piece.text})"
        )

    def _compound(self, text: str, kind: str, sign: str = "") -> Fragment:
        return Fragment(text if self._pretty else f"({text})", kind, sign)

    def _logical(self, node: exp.Expr) -> Fragment:
        """Return AND or OR; nested chains of the same operator are flat."""
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts: list[exp.Expr] = []
        pending = [node]
        while pending:
            operand = pending.pop()
            if type(operand) is type(node):
                pending += [operand.args["expression"], operand.this]
            else:
                parts.append(operand)
        texts = [self._parenthesize(self.fragment(one), word) for one in parts]
        return self._compound(f" {word} ".join(texts), word)

    def _not(self, inner: exp.Expr) -> Fragment:
        if isinstance(inner, exp.In):
            return self._in_list(inner, "<> ALL")
        if isinstance(inner, exp.Is):
            raise NotDeparsableError
        return self._compound(f"NOT {self._parenthesize(self.fragment(inner), 'NOT')}", "NOT")

    def _test(self, node: exp.Expr) -> Fragment:
        left = self._parenthesize(self.fragment(node.this), "test")
        other = node.args["expression"]
        if not isinstance(node, exp.Is):
            operator = "IS DISTINCT FROM" if isinstance(node, exp.NullSafeNEQ) else "IS NOT DISTINCT FROM"
            left, right = (self._parenthesize(one, "op") for one in self._operands(node.this, other))
            return self._compound(f"{left} {operator} {right}", "test")
        if not isinstance(other, exp.Null | exp.Boolean):
            raise NotDeparsableError
        word = self.fragment(other).text.upper()
        return self._compound(f"{left} IS {'NOT ' if node.args.get('negate') else ''}{word}", "test")

    def _in_list(self, node: exp.In, sign: str) -> Fragment:
        """Return IN as a comparison with the elements of an array."""
        listed = node.expressions
        if not listed or node.args.get("query") is not None:
            raise NotDeparsableError
        if len(listed) == 1:
            comparison = exp.EQ if sign == "= ANY" else exp.NEQ
            return self._operator(comparison(this=node.this, expression=listed[0]))
        type_ = self.type_of(node.this)
        left = self._as_text(self.fragment(node.this), type_)
        values = [
            self._constant(element, type_)
            if isinstance(element, exp.Literal) and element.is_string
            else self.fragment(element)
            for element in listed
        ]
        made_array = f"ARRAY[{', '.join(element.text for element in values)}]"
        varying = type_ is not None and type_.kind is TypesKind.VARCHAR and type_.precision
        if varying:
            made_array = f"{made_array}::text[]" if self._pretty else f"({made_array})::text[]"
        return self._compound(f"{self._parenthesize(left, 'op')} {sign} ({made_array})", "among")

    def _as_text(self, piece: Fragment, type_: Type | None) -> Fragment:
        """Return an operand of a text operator; a VARCHAR(n) is cast to text."""
        if type_ is not None and type_.kind is TypesKind.VARCHAR and type_.precision:
            return self._cast_to(piece, "text")
        return piece

    def _cast_to(self, piece: Fragment, label: str) -> Fragment:
        inner = self._parenthesize(piece, "cast") if self._pretty else f"({piece.text})"
        return Fragment(f"{inner}::{label}", "cast" if piece.kind == "simple" else piece.kind)

    def _operands(self, left: exp.Expr, right: exp.Expr) -> tuple[Fragment, Fragment]:
        """Return both sides of an operator, cast to a common type."""
        types = self.type_of(left), self.type_of(right)
        return self._operand(left, types[0], types[1]), self._operand(right, types[1], types[0])

    def _operand(self, node: exp.Expr, own_type: Type | None, other_type: Type | None) -> Fragment:
        if isinstance(node, exp.Literal) and node.is_string:
            plain = (
                TEXT
                if other_type is None or (other_type.is_text and other_type.kind is TypesKind.VARCHAR)
                else other_type
            )
            return self._constant(node, plain)
        piece = self._as_text(self.fragment(node), own_type)
        if own_type is None or other_type is None or own_type.kind is other_type.kind:
            return piece
        if own_type.kind in INTEGER_KINDS or own_type.kind is TypesKind.DECIMAL:
            if other_type.kind in (TypesKind.DOUBLE, TypesKind.REAL):
                return self._cast_to(piece, "double precision")
            if own_type.kind in INTEGER_KINDS and other_type.kind in (TypesKind.DECIMAL, TypesKind.NUMERIC):
                return self._cast_to(piece, "numeric")
        return piece

    def _operator(self, node: exp.Expr) -> Fragment:
        sign, right_node = SIGNS[type(node)], node.args["expression"]
        if node.args.get("escape") or isinstance(right_node, exp.Any | exp.All | exp.Subquery):
            raise NotDeparsableError
        if node.args.get("negate"):
            sign = f"!{sign}"
        if sign in ("->", "->>") and not isinstance(right_node, exp.Literal):
            raise NotDeparsableError
        if sign in ("->", "->>"):
            left, right = self.fragment(node.this), self.fragment(right_node)
        elif sign == "||":
            left, right = (
                self._as_text(self.fragment(one), self.type_of(one)) for one in (node.this, right_node)
            )
        else:
            left, right = self._operands(node.this, right_node)
        text = f"{self._parenthesize(left, 'op', sign)} {sign} {self._parenthesize(right, 'op', sign, False)}"
        return self._compound(text, "op", sign)

    def _negative(self, node: exp.Neg) -> Fragment:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            value, label = _number(str(node.this.this))
            return Fragment(f"'-{value}'::{label}")
        return self._compound(
            f"- {self._parenthesize(self.fragment(node.this), 'op', '-', False)}", "op", "-"
        )

    def _cast(self, node: exp.Cast) -> Fragment:
        type_ = self.type_of(node)
        if type_ is None or type(node) is not exp.Cast:
            raise NotDeparsableError
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string and not type_.precision:
            return self._constant(inner, type_)
        modified = oids.modified_type_name(oids.type_facts(type_)[2], oids.type_modifier(type_))
        piece = (
            Fragment(self._literal_text(inner)) if isinstance(inner, exp.Literal) else self.fragment(inner)
        )
        if isinstance(inner, exp.Array) and not inner.expressions:
            return Fragment(f"ARRAY[]::{self._type_label(type_)}")
        return self._cast_to(piece, modified or self._type_label(type_).replace("bpchar", "character(1)"))

    def _literal_text(self, node: exp.Literal) -> str:
        return f"{_string_literal(str(node.this))}" if node.is_string else str(node.this)

    def _case(self, node: exp.Case) -> Fragment:
        self._depth += 1
        margin, lines = "    " * self._depth, ["\n" + "    " * (self._depth - 1) + "CASE"]
        if node.this is not None:
            raise NotDeparsableError
        for branch in node.args["ifs"]:
            value = self.fragment(branch.args["true"]).text
            lines.append(f"{margin}WHEN {self.fragment(branch.this).text} THEN {value}")
        last = node.args.get("default")
        lines += [f"{margin}ELSE {self.fragment(last).text}"] if last is not None else []
        self._depth -= 1
        return Fragment("\n".join([*lines, "    " * self._depth + "END"]))

    def _call(self, node: exp.Expr) -> Fragment:
        if type(node) in WORDS and not node.this:
            return Fragment(WORDS[type(node)])
        if isinstance(node, exp.CurrentTimestamp):
            return Fragment("now()" if "now" in self._text.lower() else "CURRENT_TIMESTAMP")
        if isinstance(node, exp.Extract):
            unit = str(node.this.this).lower()
            return Fragment(f"EXTRACT({unit} FROM {self.fragment(node.args['expression']).text})")
        schema = ""
        if isinstance(node, exp.Dot) and isinstance(node.args["expression"], exp.Anonymous):
            schema, node = node.this.name, node.args["expression"]
        if isinstance(node, exp.Anonymous):
            name, args = str(node.this).lower(), list(node.expressions)
        elif type(node) in NAMES:
            name, args = (
                str(node.meta.get(SOURCE_NAME) or NAMES[type(node)]),
                [node.this] if node.this else [],
            )
        else:
            raise NotDeparsableError
        return Fragment(self._call_text(f"{schema}.{name}" if schema else name, args))

    def _call_text(self, name: str, args: Sequence[exp.Expr]) -> str:
        if name in ("nextval", "currval") and (called := args[0].find(exp.Literal)) is not None:
            sequence = self._catalog.find_sequence(str(called.this).replace('"', ""))
            sequence_name = (
                display_name(self._catalog, sequence.name, "relation") if sequence else str(called.this)
            )
            return f"{name}({_string_literal(sequence_name)}::regclass)"
        if name in ("coalesce", "greatest", "least", "nullif"):
            types = [one for one in map(self.type_of, args) if one is not None]
            listed = [self._operand(one, self.type_of(one), types[0] if types else None).text for one in args]
            return f"{name.upper()}({', '.join(listed)})"
        routines = self._catalog.routines.get(name.removeprefix("public."))
        function_name = display_name(self._catalog, routines[0].name, "function") if routines else name
        listed = [self._as_text(self.fragment(one), self.type_of(one)).text for one in args]
        return f"{function_name}({', '.join(listed)})"


def _needs_no_parentheses(piece: Fragment, parent: str, sign: str, is_left: bool) -> bool:
    """Return whether a part needs no parentheses under its parent."""
    if piece.kind in ("simple", "cast"):
        return True
    if piece.kind == "op" and parent == "op" and piece.sign in PRECEDENCE and sign in PRECEDENCE:
        precedence, parent_precedence = PRECEDENCE[piece.sign], PRECEDENCE[sign]
        return precedence > parent_precedence or (precedence == parent_precedence and is_left)
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


def _string_literal(text: str) -> str:
    """Return a text as a string literal."""
    plain = text.replace("'", "''")
    return f"E'{plain.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{plain}'"


def qualify_where_needed(catalog: Catalog, text: str) -> str:
    """Return a query's text with names qualified where the search path does not find them."""
    try:
        tree = parse_tree(tokenize(text), text)
    except Error:
        return text
    changes: Replacements = {}
    for call in tree.find_all(exp.Anonymous):
        _qualify_function(catalog, call, text, changes)
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not is_cte_reference(node):
            _qualify_relation(catalog, node, changes)
    return apply_replacements(text, changes)


def _qualify_relation(catalog: Catalog, node: exp.Table, changes: Replacements) -> None:
    schema, name = node.args.get("db"), node.this
    start, end = (schema or name).meta.get("start"), name.meta.get("end")
    entry = catalog.find(relation_name(node)) or catalog.find(f"public.{name.name}")
    if entry is not None and start is not None and end is not None:
        name_text = display_name(catalog, entry.name, "relation")
        if "." in name_text or schema is not None:
            changes[start] = (end + 1, name_text)


def _qualify_function(catalog: Catalog, node: exp.Anonymous, text: str, changes: Replacements) -> None:
    name = str(node.this).lower()
    schema = node.parent.this if isinstance(node.parent, exp.Dot) else None
    qualified_name = f"{schema.name}.{name}" if isinstance(schema, exp.Identifier) else name
    routines = catalog.routines_of_full_name(qualified_name)
    start, at = (schema or node).meta.get("start"), node.meta.get("start")
    if routines and start is not None and at is not None and text[at : at + len(name)].lower() == name:
        name_text = display_name(catalog, routines[0].name, "function")
        if "." in name_text or schema is not None:
            changes[start] = (at + len(name), name_text)


Kind = str
NewNames = Mapping[tuple[Kind, str], str]
"""New qualified names by kind and old qualified name in lower case.

The kinds are RELATION, SEQUENCE, TYPE and FUNCTION.
"""
RELATION: Final = "RELATION"
SEQUENCE: Final = "SEQUENCE"
TYPE: Final = "TYPE"
FUNCTION: Final = "FUNCTION"


def rename_references(text: str, names: NewNames) -> str:
    """Return a qualified text with renamed relations, sequences, types and functions."""
    lower = text.lower()
    if not any(name.rpartition(".")[2] in lower for _, name in names):
        return text
    tree, offset = parse_text(text)
    if tree is None:
        return text
    renaming = _ReferenceRenamer(names, text, offset, tree)
    for node in tree.walk():
        renaming.visit(node)
    return apply_replacements(text, renaming.changes)


class _ReferenceRenamer:
    """Collector of the replacements in a text; the positions of its nodes are shifted by ``offset``."""

    def __init__(self, names: NewNames, text: str, offset: int, tree: exp.Expr) -> None:
        self._names = names
        self._text = text
        self._offset = offset
        self._qualifiers = {
            (one.table or one.name).lower() for one in tree.find_all(exp.Column) if not one.args.get("db")
        } | {one.table.lower() for one in tree.find_all(exp.Column) if one.args.get("db")}
        self.changes: Replacements = {}

    def _new_name(self, name: str, *kinds: Kind) -> str | None:
        qualified_name = name.lower().removeprefix(f"{PUBLIC}.")
        return next(
            (self._names[kind, qualified_name] for kind in kinds if (kind, qualified_name) in self._names),
            None,
        )

    def visit(self, node: exp.Expr) -> None:
        """Record the replacement of the names in a node."""
        match node:
            case exp.Table(this=exp.Identifier()):
                self._table(node)
            case exp.Column(args={"db": exp.Identifier() as schema, "table": exp.Identifier() as table}):
                if self._new_name(f"{schema.name}.{table.name}", RELATION) is not None:
                    self._replace(schema, table, self._alias(table.name))
            case exp.Anonymous():
                schema = _schema_of(node)
                qualified_name = f"{schema.name}.{node.this}" if schema is not None else str(node.this)
                new = self._new_name(qualified_name, FUNCTION)
                if new is not None:
                    self._replace(schema or node, node, qualified_spelling(new))
            case exp.DataType(args={"kind": exp.Expr() as kind}):
                new = self._new_name(user_type_name(kind), TYPE, RELATION)
                if new is not None:
                    first, last = (kind.this, kind.expression) if isinstance(kind, exp.Dot) else (kind, kind)
                    self._replace(first, last, qualified_spelling(new))
            case exp.Literal() if node.is_string and is_sequence_argument(node):
                place = literal_offsets(node, self._text, self._offset)
                new = self._new_name(node.name.replace('"', ""), SEQUENCE, RELATION)
                if new is not None and place is not None:
                    self.changes[place[0]] = (place[1], qualified_literal(new))

    def _table(self, node: exp.Table) -> None:
        schema = node.args.get("db")
        if schema is None and is_cte_reference(node):
            return
        plain = node.name
        new = self._new_name(f"{schema.name}.{plain}" if schema is not None else plain, RELATION)
        if new is None:
            return
        new_text = qualified_spelling(new)
        has_alias = node.args.get("alias") is not None
        if not has_alias and plain.lower() in self._qualifiers and new.rpartition(".")[2] != plain:
            new_text += f" AS {self._alias(plain)}"  # columns are qualified by the old name
        self._replace(schema or node.this, node.this, new_text)

    @staticmethod
    def _alias(plain: str) -> str:

        return quote_identifier(plain)

    def _replace(self, first: exp.Expr, last: exp.Expr, new_text: str) -> None:
        if "start" in first.meta and "end" in last.meta:
            start = first.meta["start"] - self._offset
            self.changes[start] = (last.meta["end"] + 1 - self._offset, new_text)


def _schema_of(node: exp.Anonymous) -> Any:
    """Return the identifier of a called function's schema; None without one."""
    above = node.parent
    if isinstance(above, exp.Dot) and above.expression is node:
        return above.this if isinstance(above.this, exp.Identifier) else None
    return above.args.get("db") if isinstance(above, exp.Table) else None
