"""Translation of FlowLog's dialect where its meaning differs from Soufflé's.

A program is FlowLog if it declares columns of tuples or of FlowLog's type names, or has its blocks, functions
or commands. The differences:

* Operators bind as in Soufflé, except in programs with blocks. Older FlowLog read those from left to right.
* A lattice column ``dist: min<int32>`` is an aggregate in the heads.
* Names of relations, columns, components and instances ignore case. Each use gets the declared spelling.
* An aggregate ranges over the bindings of named variables. Atoms with underscores become atoms of relations
  without these columns.
* Numbers narrower than 64 bits wrap or round. The first typed operand gives the type of an operation, and the
  operation's name carries it: ``+@int8``. A constant beside a 32-bit float is such a float.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

import numpy as np

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.flowlog.loops import Block, by_rounds, declarations, without_blocks
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.traverse import head_aggregate, nodes, rewritten
from kpg.runtime.errors import Span
from kpg.runtime.functions import aggregate_named
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE

T = TypeVar("T")


Merges = Mapping[str, Mapping[int, str]]
"""Of relations the functions of columns, by place."""


def with_merges(statements: Sequence[ast.Statement]) -> list[ast.Statement]:
    """The statements with such columns as aggregates of what rules derive."""
    merges: dict[str, dict[int, str]] = {}
    made: list[ast.Statement] = []
    for one in statements:
        if isinstance(one, ast.Declaration) and any(part.type.merge for part in one.attributes):
            places = {at: part.type.merge for at, part in enumerate(one.attributes) if part.type.merge}
            merges |= {name.text: places for name in one.names}
            plain = tuple(replace(part, type=replace(part.type, merge="")) for part in one.attributes)
            one = replace(one, attributes=plain)
        made.append(one)
    return [_aggregating(one, merges) if merges and isinstance(one, ast.Clause) else one for one in made]


def _aggregating(clause: ast.Clause, merges: Merges) -> ast.Clause:
    body = clause.body or ast.Truth(True, clause.span)  # facts alone would be a table that keeps them all
    heads = tuple(_head(head, merges.get(head.name.text, {})) for head in clause.heads)
    return clause if heads == clause.heads else replace(clause, heads=heads, body=body)


def _head(head: ast.Atom, places: Mapping[int, str]) -> ast.Atom:
    args = tuple(
        ast.Call(places[at], (arg,), arg.span) if at in places else arg for at, arg in enumerate(head.args)
    )
    return replace(head, args=args)


BEST = ("min", "max")
"""What columns keep the best by, and functors of any number of values."""
VALUED = (*BEST, "sum")
"""Aggregates of the type of their values."""


def spelled(statements: Sequence[T]) -> list[T]:
    """The statements with uses of names spelled as the declarations are."""
    known = _spellings(statements)
    if not known:
        return list(statements)

    def change(node: Any) -> Any:
        if isinstance(node, ast.Directive):
            return replace(node, names=tuple(_spelled(name, known) for name in node.names))
        if isinstance(node, ast.Atom | ast.ComponentRef | ast.Override | ast.Query):
            return replace(node, name=_spelled(node.name, known))
        return node

    return [rewritten(one, change) for one in statements]


def _spellings(statements: Sequence[Any]) -> dict[str, str]:
    """The spelling of names in small letters, but for those that are declared in several ways."""
    found: dict[str, set[str]] = {}
    for text in _declared(statements):
        found.setdefault(text.lower(), set()).add(text)
    return {small: texts.pop() for small, texts in found.items() if len(texts) == 1}


def _declared(statements: Sequence[Any]) -> Iterator[str]:
    for one in nodes(tuple(statements)):
        if isinstance(one, ast.Declaration):
            yield from (name.text for name in one.names)
        elif isinstance(one, ast.Component | ast.Init):
            yield one.name.text


def _spelled(name: ast.Name, known: Mapping[str, str]) -> ast.Name:
    text = ".".join(known.get(part.lower(), part) for part in name.text.split("."))
    return name if text == name.text else replace(name, text=text)


BLOCKS: Final = r"\bfixpoint\s*\{|\bloop\s+(?:while|until)\b"
ITS: Final = re.compile(
    r":\s*(?P<type>u?int(?:8|16|32|64)|[iu](?:8|16|32|64)|f32|f64|string|bool)\b"
    rf"|:\s*\(\s*[\w?]+\s*:(?!-)|{BLOCKS}|^\s*\.extern\s+fn\b|\bIO\s*=\s*\"?(?:command|cmd)\b",
    re.MULTILINE,
)
DEFINED: Final = re.compile(r"\.type\s+(\w+)")
HAS_BLOCKS: Final = re.compile(BLOCKS)
ROWS: Final = "@rows"
"""Follows a relation's name in that of the rows that its aggregate is over."""
MOST_ROUNDS: Final = 200
"""Of a loop that is written out round by round."""
OTHER_FUNCTORS: Final = {"to_number": "to_number_or_zero", "to_string": "to_plain_string"}
"""Functors that are called alike and mean something else."""
TOTALS: Final = {"count": False, "sum": True}
"""Aggregates that are 0 of no rows, and whether they are of a value."""
COUNTING: Final = ("count", "sum", "mean")
"""Aggregates to which it matters whether a row is there twice."""
WHOLE: Final = re.compile(r"number|unsigned|u?int(8|16|32|64)|[iu](8|16|32|64)")


def is_flowlog(text: str) -> bool:
    """Whether a text without comments is FlowLog's: a type that it defines itself says nothing."""
    defined = set(DEFINED.findall(text))
    return any(found["type"] not in defined for found in ITS.finditer(text))


def binds_alike(text: str) -> bool:
    """Whether operators of FlowLog's text are read from left to right."""
    return HAS_BLOCKS.search(text) is not None


def translate(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """FlowLog's statements as ours; what has no equal is noted."""

    flat = with_merges(by_rounds(without_blocks(spelled(statements), diagnostics), diagnostics))
    functions = {one.name.text for one in flat if isinstance(one, ast.Functor)}
    singles = [with_singles(one) for one in flat]
    return _scope(singles, {}, {}, functions, aliases(singles))


Known = Mapping[str, ast.Declaration]


def _scope(
    statements: Sequence[ast.Statement],
    outside: Known,
    components: Mapping[str, Known],
    functions: Collection[str],
    known_as: Mapping[str, str],
) -> tuple[ast.Statement, ...]:
    """The statements of a text or component; ``outside``: what is declared around it."""

    own = {name.text: one for one in statements if isinstance(one, ast.Declaration) for name in one.names}
    declared, inside = {**outside, **own}, dict(components)
    made: list[ast.Statement] = []
    helpers: dict[str, ast.Declaration] = {}
    widths, projections = Widths(declared, known_as), Projections(declared)
    best = _best(statements)
    for one in statements:
        one = rewritten(one, _value)
        if isinstance(one, ast.Clause) and one.body is not None:
            one = replace(one, heads=tuple(_improving(head, best) for head in one.heads))
        if isinstance(one, ast.Component):
            bases = [inside.get(base.name.text, {}) for base in one.bases]
            known = {name: found for base in bases for name, found in base.items()}
            parts = _scope(one.statements, {**declared, **known}, inside, functions, known_as)
            inside[one.name.text] = {**known, **declarations(parts)}
            made.append(replace(one, statements=parts))
        elif isinstance(one, ast.Clause):
            one = widths.narrowed(_planned(_predicates(one, functions) if functions else one))
            one, more = projections.projected(one)
            made += more
            made += _aggregated(one, declared, helpers) if len(one.heads) == 1 else [one]
        elif isinstance(one, ast.Update):
            made.append(widths.narrowed(one))
        elif isinstance(one, ast.Directive) and one.kind == "output":
            made.append(replace(one, options=(*one.options, ("nullary", "True"))))
        else:
            made.append(one)
    return (*helpers.values(), *made)


def _best(statements: Sequence[ast.Statement]) -> dict[str, dict[int, str]]:
    """The columns of which rules keep the least or greatest value, by relations."""
    found: dict[str, dict[int, str]] = {}
    for one in statements:
        for head in one.heads if isinstance(one, ast.Clause) else ():
            for place, arg in enumerate(head.args):
                function = _function(arg)
                if function in BEST:
                    found.setdefault(head.name.text, {})[place] = function
    return found


def _improving(head: ast.Atom, best: Mapping[str, Mapping[int, str]]) -> ast.Atom:
    """The head with the aggregates of the relation's other rules: ``d(x, 0)`` beside ``d(y, min(c))``."""
    functions = best.get(head.name.text, {})
    args = tuple(
        ast.Call(functions[place], (arg,), arg.span) if place in functions and _function(arg) is None else arg
        for place, arg in enumerate(head.args)
    )
    return replace(head, args=args) if functions else head


def _planned(clause: ast.Clause) -> ast.Clause:
    """The clause with a plan for all versions, whatever the version that a single one is given for."""
    if clause.plan is None or clause.plan.is_strict or len(clause.plan.orders) != 1:
        return clause
    ((_, order),) = clause.plan.orders
    return replace(clause, plan=replace(clause.plan, orders=((0, order),)))


# Values


def _value(node: Any) -> Any:
    """True and False; a text that is no number is 0 as one, and floats have as many places as they need."""
    if isinstance(node, ast.Variable) and node.name in ("True", "False"):
        return ast.Boolean(node.name == "True", node.span)
    if isinstance(node, ast.Call) and node.function in OTHER_FUNCTORS:
        return replace(node, function=OTHER_FUNCTORS[node.function])
    return node


# Aggregates: of the different rows of keys and values that all rules derive


def _aggregated(
    clause: ast.Clause, declared: Known, helpers: dict[str, ast.Declaration]
) -> Iterator[ast.Statement]:
    (head,) = clause.heads
    places = [place for place, arg in enumerate(head.args) if _function(arg) is not None]
    declaration = declared.get(head.name.text)
    counts = any(_function(head.args[place]) in COUNTING for place in places)
    if not counts or declaration is None or len(declaration.attributes) != len(head.args):
        yield clause
        return
    operands = {place: _operand(head.args[place]) for place in places}
    rows = replace(head.name, text=head.name.text + ROWS)
    is_new = rows.text not in helpers and rows.text not in declared
    if is_new:
        helpers[rows.text] = _rows(declaration, rows, operands, clause, declared)
    args = tuple(operands.get(place, arg) for place, arg in enumerate(head.args))
    yield replace(clause, heads=(replace(head, name=rows, args=args),))
    if is_new:
        yield _combined(clause, head, rows, places, declaration)


def _operand(arg: ast.Expression) -> ast.Expression:
    found = head_aggregate(arg)
    assert found is not None
    return found[1]


def _function(arg: ast.Expression) -> str | None:
    found = head_aggregate(arg)
    return None if found is None else found[0]


def _rows(
    declaration: ast.Declaration,
    name: ast.Name,
    operands: Mapping[int, ast.Expression],
    clause: ast.Clause,
    declared: Known,
) -> ast.Declaration:
    """The declaration of the rows: as the relation's, with the values' types."""
    attributes = list(declaration.attributes)
    for place, value in operands.items():
        found = _type_of(value, clause.body, declared)
        if found is not None:
            attributes[place] = replace(attributes[place], type=found)
    return ast.Declaration((name,), tuple(attributes), (), declaration.span)


def _type_of(value: ast.Expression, body: ast.Body | None, declared: Known) -> ast.TypeRef | None:
    """The type of the first column that one of the value's variables stands in."""
    names = [part.name for part in nodes(value) if isinstance(part, ast.Variable)]
    for atom in nodes(body):
        declaration = declared.get(atom.name.text) if isinstance(atom, ast.Atom) else None
        if declaration is None or not isinstance(atom, ast.Atom):
            continue
        for arg, attribute in zip(atom.args, declaration.attributes, strict=False):
            if isinstance(arg, ast.Variable) and arg.name in names[:1]:
                return attribute.type
    return None


def _leaves_whole_numbers(function: str) -> bool:
    """Whether the aggregate of whole numbers is none: it is a mean."""
    signature = aggregate_named(function).rule((BIGINT,))
    return signature is not None and signature.result == DOUBLE


def _combined(
    clause: ast.Clause,
    head: ast.Atom,
    rows: ast.Name,
    places: Sequence[int],
    declaration: ast.Declaration,
) -> ast.Clause:
    """The rule that aggregates the rows; a mean of a column of whole numbers is whole. Without keys, counts
    and sums of no rows are 0.
    """
    functions = [_function(head.args[place]) for place in places]
    if len(places) == len(head.args) and all(function in TOTALS for function in functions):
        return _totals(clause, head, rows)
    span = clause.span
    names = [ast.Variable(f"c{number}", span) for number in range(len(head.args))]
    args: list[ast.Expression] = list(names)
    for place in places:
        function = str(_function(head.args[place]))
        whole = WHOLE.fullmatch(declaration.attributes[place].type.name.text)
        if whole and _leaves_whole_numbers(function):
            value = ast.Variable("value", span)
            inner = tuple(value if at == place else _other(names[at], places, at) for at in range(len(names)))
            total = ast.Aggregate("sum", value, ast.Atom(rows, inner, span), span)
            number = ast.Aggregate("count", None, ast.Atom(rows, inner, span), span)
            args[place] = ast.Call("/", (total, number), span)
        else:
            args[place] = ast.Call(function, (names[place],), span)
    used = {part.name for arg in args for part in nodes(arg) if isinstance(part, ast.Variable)}
    body = tuple(name if name.name in used else ast.Underscore(span) for name in names)
    return ast.Clause((replace(head, args=tuple(args)),), ast.Atom(rows, body, span), None, span)


def _totals(clause: ast.Clause, head: ast.Atom, rows: ast.Name) -> ast.Clause:
    span = clause.span
    args: list[ast.Expression] = []
    for place, arg in enumerate(head.args):
        value = ast.Variable("value", span)
        inner = tuple(value if at == place else ast.Underscore(span) for at in range(len(head.args)))
        function = str(_function(arg))
        operand = value if TOTALS[function] else None
        atom = ast.Atom(rows, inner if operand else (ast.Underscore(span),) * len(head.args), span)
        args.append(ast.Aggregate(function, operand, atom, span))
    return ast.Clause((replace(head, args=tuple(args)),), None, None, span)


def _other(name: ast.Variable, places: Sequence[int], place: int) -> ast.Expression:
    """A key of the rows, or any of the values that another aggregate is of."""
    return ast.Underscore(name.span) if place in places else name


# Tuples: records whose type is known by its fields


def tuple_type(
    fields: tuple[ast.Attribute, ...], span: Span, known: dict[str, ast.RecordType]
) -> ast.TypeRef:
    """The type ``(a: int32, b: string)``, entered into the known ones."""
    name = ast.Name(f"({', '.join(one.type.name.text for one in fields)})", span)
    if name.text not in known:
        named = tuple(
            replace(one, name=replace(one.name, text=f"{place}")) for place, one in enumerate(fields)
        )
        known[name.text] = ast.RecordType(name, named, span)
    return ast.TypeRef(name)


# Predicates of the user's


def _predicates(clause: ast.Clause, known: Collection[str]) -> ast.Clause:
    """The clause with functions that stand for literals compared to True."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Atom) and node.name.text in known:
            call = ast.Call(node.name.text, node.args, node.span)
            return ast.Comparison("=", call, ast.Boolean(True, node.span), node.span)
        return node

    return replace(clause, body=rewritten(clause.body, change))


@dataclass(frozen=True, slots=True)
class Projections:
    """Relations of columns of others, by name."""

    declared: Mapping[str, ast.Declaration]
    made: dict[str, ast.Declaration] = field(default_factory=dict)

    def projected(self, clause: ast.Clause) -> tuple[ast.Clause, list[ast.Statement]]:
        """The rule with its aggregates over named variables, and the rules that it needs besides."""
        added: list[ast.Statement] = []

        def change(node: Any) -> Any:
            if not isinstance(node, ast.Aggregate):
                return node
            return replace(node, body=rewritten(node.body, lambda part: self._atom(part, added)))

        return rewritten(clause, change), added

    def _atom(self, atom: Any, added: list[ast.Statement]) -> Any:
        if not isinstance(atom, ast.Atom) or atom.name.text not in self.declared:
            return atom
        declaration = self.declared[atom.name.text]
        kept = [at for at, arg in enumerate(atom.args) if not isinstance(arg, ast.Underscore)]
        if len(kept) == len(atom.args) or len(atom.args) != len(declaration.attributes):
            return atom
        span = atom.span
        name = replace(atom.name, text=f"{atom.name.text}@{'.'.join(map(str, kept))}")
        if name.text not in self.made:
            attributes = tuple(declaration.attributes[at] for at in kept)
            self.made[name.text] = ast.Declaration((name,), attributes, (), span)
            terms = {at: ast.Variable(f"c{at}", span) for at in kept}
            wide = tuple(terms.get(at, ast.Underscore(span)) for at in range(len(atom.args)))
            head = ast.Atom(name, tuple(terms.values()), span)
            added += [
                self.made[name.text],
                ast.Clause((head,), ast.Atom(atom.name, wide, span), None, span),
            ]
        return ast.Atom(name, tuple(atom.args[at] for at in kept), span)


TreeType = TypeVar("TreeType", ast.Clause, ast.Update)
SINGLE: Final = "f32"
OTHER_NAMES: Final = {"number": "int32", "unsigned": "uint32", "float": SINGLE}
"""FlowLog's other names of its types."""
NARROW: Final = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)), SINGLE)
OPERATIONS: Final = (*"+-*/%^", "neg", "band", "bor", "bxor", "bshl", "bshr", "bshru", "bnot")
WHOLE_RESULTS: Final = ("strlen", "ord", "to_number", "to_number_or_zero")


def aliases(statements: Sequence[Any]) -> dict[str, str]:
    """What types that the statements declare are of."""
    found: dict[str, str] = {}
    for one in nodes(tuple(statements)):
        if isinstance(one, ast.Subtype):
            found[one.name.text] = one.base.name.text
        elif isinstance(one, ast.UnionType):
            found[one.name.text] = one.members[0].name.text
    return found


def with_singles(statement: ast.Statement) -> ast.Statement:
    """The statement with columns of floats of 32 bits as FlowLog's ``float`` are."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Attribute) and node.type.name.text == "float":
            return replace(node, type=replace(node.type, name=replace(node.type.name, text=SINGLE)))
        return node

    return rewritten(statement, change)


@dataclass(frozen=True, slots=True)
class Widths:
    """The types of columns of relations; ``known_as``: what types are of."""

    declared: Mapping[str, ast.Declaration]
    known_as: Mapping[str, str]

    def narrowed(self, one: TreeType) -> TreeType:
        """A rule or an update with operations as those of their types."""
        names = dict(self._columns(one))
        reader = _Reader(names)
        while any(reader.learns(node) for node in nodes(one)):
            pass

        def change(node: Any) -> Any:
            if isinstance(node, ast.Call):
                return _call(node, reader)
            if isinstance(node, ast.Comparison):
                type_ = reader.type_of(node.left) or reader.type_of(node.right)
                left, right = _of((node.left, node.right), type_)
                return replace(node, left=left, right=right)
            if isinstance(node, ast.Atom):
                types = self._types(node)
                made: tuple[ast.Expression, ...] = tuple(
                    _of((arg,), type_)[0] for arg, type_ in zip(node.args, types, strict=False)
                )
                return replace(node, args=(*made, *node.args[len(made) :]))
            return node

        return rewritten(one, change)

    def _types(self, atom: ast.Atom) -> list[str]:
        declaration = self.declared.get(atom.name.text)
        attributes = () if declaration is None else declaration.attributes
        return [self._type(one.type.name.text) for one in attributes]

    def _type(self, name: str) -> str:
        for _ in self.known_as:
            name = self.known_as.get(name, name)
        return OTHER_NAMES.get(name, name)

    def _columns(self, one: Any) -> Iterator[tuple[str, str]]:
        for atom in nodes(one.body if isinstance(one, ast.Clause) else ()):
            if isinstance(atom, ast.Atom):
                for arg, type_ in zip(atom.args, self._types(atom), strict=False):
                    if isinstance(arg, ast.Variable):
                        yield arg.name, type_


@dataclass(frozen=True, slots=True)
class _Reader:
    """The types of a rule's variables."""

    names: dict[str, str] = field(default_factory=dict)

    def learns(self, node: Any) -> bool:
        """Whether the node is an equation that tells the type of a variable."""
        if not isinstance(node, ast.Comparison) or node.operator != "=":
            return False
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Variable) and one.name not in self.names:
                type_ = self.type_of(other)
                if type_ is not None:
                    self.names[one.name] = type_
                    return True
        return False

    def type_of(self, expression: Any) -> str | None:
        """The type of an expression, if that is seen without what is around it."""
        if isinstance(expression, ast.Variable):
            return self.names.get(expression.name)
        if isinstance(expression, ast.Aggregate) and expression.function in VALUED:
            return self.type_of(expression.value)
        if not isinstance(expression, ast.Call):
            return None
        if expression.function in WHOLE_RESULTS:
            return "int32"
        if expression.function.partition("@")[0] not in (*OPERATIONS, *BEST):
            return None
        return next((type_ for type_ in map(self.type_of, expression.args) if type_), None)


def _call(node: ast.Call, reader: _Reader) -> ast.Call:
    """The operation as that of its type."""
    type_ = reader.type_of(node)
    if node.function in OPERATIONS and type_ in NARROW:
        return replace(node, function=f"{node.function}@{type_}", args=_of(node.args, type_))
    if node.function == "to_plain_string" and reader.type_of(node.args[0]) == SINGLE:
        return replace(node, function=f"{node.function}@{SINGLE}")
    return node


def _of(args: Sequence[ast.Expression], type_: str | None) -> tuple[ast.Expression, ...]:
    """The expressions, constants among them rounded to a type of floats."""
    return tuple(map(_single, args)) if type_ == SINGLE else tuple(args)


def _single(arg: ast.Expression) -> ast.Expression:
    if isinstance(arg, ast.Float):
        return replace(arg, value=rounded(arg.value))
    if isinstance(arg, ast.Call) and arg.function in BEST:
        return replace(arg, args=_of(arg.args, SINGLE))
    return arg


def rounded(value: float) -> float:
    """The nearest float of 32 bits."""
    with np.errstate(all="ignore"):
        return float(np.float32(value))
