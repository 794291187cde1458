"""Predicates: AND, OR, NOT, IN, BETWEEN, IS, LIKE, row comparisons, and subqueries in expressions.

A subquery is bound in the enclosing scope, and the scalar refers to it by id.
"""

from dataclasses import replace
from functools import partial

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, coerce, condition, settled, unified
from kpg.compiler.sql.bind.composite import (
    bind_any_element,
    compared_pairs,
    compared_rows,
    row_columns,
    row_is_null,
    row_parts,
    rows_equal,
)
from kpg.compiler.sql.bind.functions import COMPARISONS, OPPOSITE
from kpg.compiler.sql.bind.query_output import settled_query
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Query, Subquery
from kpg.compiler.sql.parse.syntax import only, span_of
from kpg.runtime.functions import listed_type
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, UNKNOWN, Kind, Type


def bind_subquery(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``EXISTS (query)``, or ``(query)`` as a value."""
    if isinstance(node, exp.Exists):
        only(node, binding.source, "this")
        return _register(binding, "exists", _query(binding, scope, _with_a_column(node.this)), BOOLEAN)
    query = _query(binding, scope, node)
    if len(query.columns) != 1:
        binding.wrong(f"a subquery used as a value returns one column, not {len(query.columns)}", node)
    column = _register(binding, "scalar", query, query.columns[0].type)
    subquery = binding.subqueries[column.index]
    binding.subqueries[column.index] = replace(subquery, place=partial(span_of, node, binding.source))
    return column


def _with_a_column(query: exp.Expr) -> exp.Expr:
    """``SELECT FROM ...``, of which EXISTS asks only whether it has rows, with a column."""
    if not isinstance(query, exp.Select) or query.expressions:
        return query
    filled = query.copy()
    filled.set("expressions", [exp.Literal.number(1)])
    return filled


def bind_in(binding: Binding, scope: Scope, node: exp.In) -> Scalar:
    """``operand IN (query)``, the operand a value or a row."""
    query = node.args.get("query") or node.expressions[0]
    return _any(binding, scope, node, node.this, "eq", query)


def bind_quantified(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """``operand comparison ANY (query)``, or ALL: true unless the opposite holds for some row."""
    only(node, binding.source, "this", "expression")
    if type(node) not in COMPARISONS:
        binding.refuse("ANY or ALL after anything but a comparison", node)
    comparison, quantifier = COMPARISONS[type(node)], node.expression
    every = isinstance(quantifier, exp.All) or quantifier.name.lower() == "all"
    if isinstance(quantifier, exp.Anonymous):
        only(quantifier, binding.source, "this", "expressions")
        query = quantifier.expressions[0]
    else:
        only(quantifier, binding.source, "this")
        query = quantifier.this
    found = bind_any_element(binding, scope, node, query, every=every)
    if found is not None:
        return found
    if every:
        opposite = _any(binding, scope, node, node.this, OPPOSITE[comparison], query)
        return call(binding, "not", [opposite], node)
    return _any(binding, scope, node, node.this, comparison, query)


def is_quantifier(node: exp.Expr | None) -> bool:
    """Whether the node is ANY, SOME or ALL; before a query in two parentheses sqlglot makes a call of it."""
    match node:
        case exp.Any() | exp.All():
            return True
        case exp.Anonymous(expressions=[_]):
            return node.name.lower() in ("any", "some", "all")
        case _:
            return False


def _any(
    binding: Binding,
    scope: Scope,
    node: exp.Expr,
    left: exp.Expr,
    comparison: str,
    right: exp.Expr,
) -> Scalar:
    if not isinstance(right, exp.Query | exp.Values):
        binding.refuse("ANY, ALL or IN over anything but a query", node)
    operands = row_parts(left) or [left]
    values = [binding.expression(scope, operand) for operand in operands]
    query = _query(binding, scope, right)
    if len(query.columns) != len(values):
        message = f"the subquery returns {len(query.columns)} columns, to compare with {len(values)}"
        binding.wrong(message, node)
    if len(values) > 1 and comparison != "eq":
        pairs = list(zip(values, query.columns, strict=True))
        return _register(binding, "any", query, BOOLEAN, (compared_pairs(binding, comparison, pairs, node),))
    tests = tuple(
        call(binding, comparison, [value, column], node)
        for value, column in zip(values, query.columns, strict=True)
    )
    return _register(binding, "any", query, BOOLEAN, tests)


def _query(binding: Binding, scope: Scope, node: exp.Expr) -> Query:
    return settled_query(binding.query(scope, node))


def _register(
    binding: Binding, kind: str, query: Query, type_: Type, comparison: tuple[Scalar, ...] = ()
) -> Column:
    subquery = Subquery(binding.fresh(), kind, replace(query, order=()), type_, comparison)
    binding.subqueries[subquery.id] = subquery
    return Column(subquery.id, type_)


def bind_predicate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """The scalar of a predicate; None if the node is not one that is bound here."""
    match node:
        case exp.And() | exp.Or():
            return _connective(binding, scope, node)
        case exp.Not():
            only(node, binding.source, "this")
            return negation(binding, bind_condition(binding, scope, node.this, "NOT"), node)
        case exp.In():
            return _in(binding, scope, node)
        case exp.Between():
            return _between(binding, scope, node)
        case exp.Is():
            return _is(binding, scope, node)
        case exp.Like() | exp.ILike() | exp.Escape():
            return _like(binding, scope, node)
        case exp.Binary() if type(node) in COMPARED and _are_rows(node):
            return compared_rows(binding, scope, node)
        case exp.Xor():
            only(node, binding.source, "this", "expression")
            sides = [bind_condition(binding, scope, side, "XOR") for side in (node.this, node.expression)]
            return call(binding, "ne", sides, node)
        case _:
            return None


MOST_BETWEENS = 8
COMPARED = (*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ)


def _are_rows(node: exp.Binary) -> bool:
    sides = row_parts(node.this), row_parts(node.expression)
    if sides == (None, None):
        return False
    return None not in sides or None not in (row_columns(node.this), row_columns(node.expression))


def bind_condition(binding: Binding, scope: Scope, node: exp.Expr, clause: str) -> Scalar:
    """A BOOLEAN expression of the named clause."""
    return condition(binding, binding.expression(scope, node), node, clause)


def negation(binding: Binding, scalar: Scalar, node: exp.Expr) -> Scalar:
    """NOT, a double one left out."""
    if isinstance(scalar, Call) and scalar.function == "not":
        return scalar.args[0]
    return call(binding, "not", [scalar], node)


def _negated_if(binding: Binding, scalar: Scalar, node: exp.Expr) -> Scalar:
    return negation(binding, scalar, node) if node.args.get("negate") else scalar


def _connective(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """A chain of the same connective as one call: sqlglot nests a long one as deep as it is long."""
    kind = type(node)
    name = "and" if kind is exp.And else "or"
    operands: list[exp.Expr] = []
    pending = [node]
    while pending:
        here = pending.pop()
        if type(here) is kind:
            only(here, binding.source, "this", "expression")
            pending += [here.args["expression"], here.this]
        elif isinstance(here, exp.Paren) and type(here.this) is kind:
            pending.append(here.this)
        else:
            operands.append(here)
    return call(
        binding, name, [bind_condition(binding, scope, part, name.upper()) for part in operands], node
    )


def _in(binding: Binding, scope: Scope, node: exp.In) -> Scalar:
    only(node, binding.source, "this", "expressions", "query", "negate")
    of_query = len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values)
    if not node.expressions and node.args.get("query") is None:
        binding.wrong("IN needs a list of values or a query", node)
    if node.args.get("query") is not None or of_query:
        return _negated_if(binding, bind_in(binding, scope, node), node)
    if row_parts(node.this) is not None:
        rows = [rows_equal(binding, scope, node.this, item, node) for item in node.expressions]
        found = rows[0] if len(rows) == 1 else call(binding, "or", rows, node)
        return _negated_if(binding, found, node)
    values = [binding.expression(scope, part) for part in (node.this, *node.expressions)]
    if len(values) == 2:
        return _negated_if(binding, call(binding, "eq", values, node), node)
    values = unified(binding, values, [node.this, *node.expressions], "IN list types", listed_type)
    by_words = values[0].type.kind is not Kind.INTERVAL
    if by_words and all(isinstance(value, Literal) for value in values[1:]):
        found = call(binding, "in", values, node)
    else:
        tests = [call(binding, "eq", [values[0], value], node) for value in values[1:]]
        found = tests[0] if len(tests) == 1 else call(binding, "or", tests, node)
    return _negated_if(binding, found, node)


def _between(binding: Binding, scope: Scope, node: exp.Between) -> Scalar:
    only(node, binding.source, "this", "low", "high", "negate", "symmetric")
    if sum(1 for _ in node.this.find_all(exp.Between)) > MOST_BETWEENS:  # each doubles what is in it
        binding.refuse(f"BETWEEN of a value with more than {MOST_BETWEENS} BETWEENs in it", node)
    value, low, high = (binding.expression(scope, node.args[part]) for part in ("this", "low", "high"))
    found = _within(binding, value, low, high, node)
    if node.args.get("symmetric"):
        found = call(binding, "or", [found, _within(binding, value, high, low, node)], node)
    return _negated_if(binding, found, node)


def _within(binding: Binding, value: Scalar, low: Scalar, high: Scalar, node: exp.Expr) -> Scalar:
    bounds = [call(binding, "ge", [value, low], node), call(binding, "le", [value, high], node)]
    return call(binding, "and", bounds, node)


def _is(binding: Binding, scope: Scope, node: exp.Is) -> Scalar:
    only(node, binding.source, "this", "expression", "negate")
    parts = row_parts(node.this)
    starred = any(part.is_star for part in parts or ())
    if parts is not None and not starred and isinstance(node.expression, exp.Null):
        return row_is_null(binding, scope, parts, node)
    operand = binding.expression(scope, node.this)
    match node.expression:
        case exp.Null() if operand.type.kind is Kind.RECORD:
            name = "$row_is_not_null" if node.args.get("negate") else "$row_is_null"
            return Call(name, (operand,), BOOLEAN)
        case exp.Null():
            if operand.type == UNKNOWN and isinstance(operand, Literal):
                operand = settled(operand)
            found = call(binding, "is_null", [operand], node)
            return call(binding, "is_not_null", [operand], node) if node.args.get("negate") else found
        case exp.Boolean(this=value):
            tested = condition(binding, operand, node.this, "IS")
            return _negated_if(
                binding, call(binding, "is_not_distinct", [tested, Literal(int(value), BOOLEAN)], node), node
            )
        case exp.JSON():
            return _is_json(binding, operand, node)
        case other:
            binding.refuse(f"IS {other.sql('postgres')}", node)


def _is_json(binding: Binding, operand: Scalar, node: exp.Is) -> Scalar:
    """``IS JSON [VALUE | SCALAR | ARRAY | OBJECT] [WITH UNIQUE KEYS]``."""
    kind = str(node.expression.this or "value").lower()
    if node.expression.args.get("unique") and node.expression.args.get("with_"):
        kind += " unique"
    found = call(binding, "is_json", [coerce(operand, TEXT), Literal(kind, TEXT)], node)
    return _negated_if(binding, found, node)


def _like(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    escape = None
    pattern = node
    if isinstance(node, exp.Escape):
        only(node, binding.source, "this", "expression")
        escape, pattern = node.expression, node.this
    if isinstance(pattern, exp.SimilarTo):
        only(pattern, binding.source, "this", "expression")
        parts = [pattern.this, pattern.expression, escape]
        return call(binding, "similar_to", [binding.expression(scope, part) for part in parts], node)
    if not isinstance(pattern, exp.Like | exp.ILike):
        binding.refuse("ESCAPE here", node)
    only(pattern, binding.source, "this", "expression", "negate")
    parts = [pattern.this, pattern.expression, *([escape] if escape is not None else [])]
    name = "like" if isinstance(pattern, exp.Like) else "ilike"
    args = [binding.expression(scope, part) for part in parts]
    if args[0].type.is_padded:  # to a pattern the blanks matter
        args[0] = call(binding, "rpad", [args[0], Literal(args[0].type.precision, INTEGER)], node)
    return _negated_if(binding, call(binding, name, args, node), pattern)


PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)


def pattern_for_each(node: exp.Expr) -> exp.Expr | None:
    """``a LIKE ANY (ARRAY[p, q])`` as ``a LIKE p OR a LIKE q``, of ALL with AND; None for what is no such."""
    quantifier = node.args.get("expression") if isinstance(node, PATTERNS) else None
    if not isinstance(quantifier, exp.Any | exp.All) or isinstance(node.parent, exp.Not):
        return None
    patterns = quantifier.this.unnest()
    if not isinstance(patterns, exp.Array) or not patterns.expressions:
        return None
    tests = []
    for pattern in patterns.expressions:
        test = node.copy()
        test.set("expression", pattern.copy())
        tests.append(test)
    combined = exp.or_(*tests) if isinstance(quantifier, exp.Any) else exp.and_(*tests)
    return combined if len(tests) > 1 else tests[0]
