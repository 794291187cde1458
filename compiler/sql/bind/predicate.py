"""Predicates: AND, OR, NOT, IN, BETWEEN, IS, LIKE, row comparisons, and subqueries in expressions.

A subquery is bound in the enclosing scope, and the scalar refers to it by id.
"""

from dataclasses import replace
from functools import partial

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, coerce, coerce_to_boolean, coerce_to_common, default_to_text
from kpg.compiler.sql.bind.composite import (
    bind_any_element,
    bind_row_comparison,
    bind_row_equality,
    bind_row_is_null,
    compare_pairs,
    row_columns,
    row_parts,
)
from kpg.compiler.sql.bind.functions import COMPARISONS, NEGATED_COMPARISON
from kpg.compiler.sql.bind.query_output import default_query_to_text
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import Query, Subquery
from kpg.compiler.sql.parse.syntax import allow_only, span_of
from kpg.runtime.functions import common_list_type
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, UNKNOWN, Kind, Type


def bind_subquery(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind ``EXISTS (query)``, or ``(query)`` as a value."""
    if isinstance(node, exp.Exists):
        allow_only(node, binding.source, "this")
        return _add_subquery(
            binding, "exists", _bind_query(binding, scope, _with_dummy_column(node.this)), BOOLEAN
        )
    query = _bind_query(binding, scope, node)
    if len(query.columns) != 1:
        binding.fail(f"a subquery used as a value returns one column, not {len(query.columns)}", node)
    column = _add_subquery(binding, "scalar", query, query.columns[0].type)
    subquery = binding.subqueries[column.index]
    binding.subqueries[column.index] = replace(subquery, locate=partial(span_of, node, binding.source))
    return column


def _with_dummy_column(query: exp.Expr) -> exp.Expr:
    """Add a column to a query without columns, since EXISTS only tests whether there are rows."""
    if not isinstance(query, exp.Select) or query.expressions:
        return query
    filled = query.copy()
    filled.set("expressions", [exp.Literal.number(1)])
    return filled


def bind_in_query(binding: Binding, scope: Scope, node: exp.In) -> Scalar:
    """Bind ``operand IN (query)``; the operand is a value or a row."""
    query = node.args.get("query") or node.expressions[0]
    return _bind_any(binding, scope, node, node.this, "eq", query)


def bind_quantified(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind ``operand comparison ANY (query)``, or ALL as NOT ANY of the negated comparison."""
    allow_only(node, binding.source, "this", "expression")
    if type(node) not in COMPARISONS:
        binding.refuse("ANY or ALL after anything but a comparison", node)
    comparison, quantifier = COMPARISONS[type(node)], node.expression
    every = isinstance(quantifier, exp.All) or quantifier.name.lower() == "all"
    if isinstance(quantifier, exp.Anonymous):
        allow_only(quantifier, binding.source, "this", "expressions")
        query = quantifier.expressions[0]
    else:
        allow_only(quantifier, binding.source, "this")
        query = quantifier.this
    found = bind_any_element(binding, scope, node, query, is_all=every)
    if found is not None:
        return found
    if every:
        opposite = _bind_any(binding, scope, node, node.this, NEGATED_COMPARISON[comparison], query)
        return call(binding, "not", [opposite], node)
    return _bind_any(binding, scope, node, node.this, comparison, query)


def is_quantifier(node: exp.Expr | None) -> bool:
    """Return whether a node is ANY, SOME or ALL. Before double parentheses sqlglot parses it as a call."""
    match node:
        case exp.Any() | exp.All():
            return True
        case exp.Anonymous(expressions=[_]):
            return node.name.lower() in ("any", "some", "all")
        case _:
            return False


def _bind_any(
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
    query = _bind_query(binding, scope, right)
    if len(query.columns) != len(values):
        message = f"the subquery returns {len(query.columns)} columns, to compare with {len(values)}"
        binding.fail(message, node)
    if len(values) > 1 and comparison != "eq":
        pairs = list(zip(values, query.columns, strict=True))
        return _add_subquery(
            binding, "any", query, BOOLEAN, (compare_pairs(binding, comparison, pairs, node),)
        )
    tests = tuple(
        call(binding, comparison, [value, column], node)
        for value, column in zip(values, query.columns, strict=True)
    )
    return _add_subquery(binding, "any", query, BOOLEAN, tests)


def _bind_query(binding: Binding, scope: Scope, node: exp.Expr) -> Query:
    return default_query_to_text(binding.query(scope, node))


def _add_subquery(
    binding: Binding, kind: str, query: Query, type_: Type, comparison: tuple[Scalar, ...] = ()
) -> Column:
    subquery = Subquery(binding.new_id(), kind, replace(query, order=()), type_, comparison)
    binding.subqueries[subquery.id] = subquery
    return Column(subquery.id, type_)


def bind_predicate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """Bind a predicate; return None if the node is not a predicate that is bound here."""
    match node:
        case exp.And() | exp.Or():
            return _bind_connective(binding, scope, node)
        case exp.Not():
            allow_only(node, binding.source, "this")
            return negate(binding, bind_condition(binding, scope, node.this, "NOT"), node)
        case exp.In():
            return _bind_in(binding, scope, node)
        case exp.Between():
            return _bind_between(binding, scope, node)
        case exp.Is():
            return _bind_is(binding, scope, node)
        case exp.Like() | exp.ILike() | exp.Escape():
            return _bind_like(binding, scope, node)
        case exp.Binary() if type(node) in COMPARISON_NODES and _compares_rows(node):
            return bind_row_comparison(binding, scope, node)
        case exp.Xor():
            allow_only(node, binding.source, "this", "expression")
            sides = [bind_condition(binding, scope, side, "XOR") for side in (node.this, node.expression)]
            return call(binding, "ne", sides, node)
        case _:
            return None


MAX_NESTED_BETWEENS = 8
"""Maximum nesting of BETWEEN: each level doubles its operand."""
COMPARISON_NODES = (*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ)


def _compares_rows(node: exp.Binary) -> bool:
    sides = row_parts(node.this), row_parts(node.expression)
    if sides == (None, None):
        return False
    return None not in sides or None not in (row_columns(node.this), row_columns(node.expression))


def bind_condition(binding: Binding, scope: Scope, node: exp.Expr, clause: str) -> Scalar:
    """Bind a BOOLEAN expression of the named clause."""
    return coerce_to_boolean(binding, binding.expression(scope, node), node, clause)


def negate(binding: Binding, scalar: Scalar, node: exp.Expr) -> Scalar:
    """Return NOT of a condition; a double negation is removed."""
    if isinstance(scalar, Call) and scalar.function == "not":
        return scalar.args[0]
    return call(binding, "not", [scalar], node)


def _apply_negate(binding: Binding, scalar: Scalar, node: exp.Expr) -> Scalar:
    return negate(binding, scalar, node) if node.args.get("negate") else scalar


def _bind_connective(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind a chain of one connective as one call. sqlglot nests a chain as deep as it is long."""
    kind = type(node)
    name = "and" if kind is exp.And else "or"
    operands: list[exp.Expr] = []
    pending = [node]
    while pending:
        here = pending.pop()
        if type(here) is kind:
            allow_only(here, binding.source, "this", "expression")
            pending += [here.args["expression"], here.this]
        elif isinstance(here, exp.Paren) and type(here.this) is kind:
            pending.append(here.this)
        else:
            operands.append(here)
    return call(
        binding, name, [bind_condition(binding, scope, part, name.upper()) for part in operands], node
    )


def _bind_in(binding: Binding, scope: Scope, node: exp.In) -> Scalar:
    allow_only(node, binding.source, "this", "expressions", "query", "negate")
    of_query = len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values)
    if not node.expressions and node.args.get("query") is None:
        binding.fail("IN needs a list of values or a query", node)
    if node.args.get("query") is not None or of_query:
        return _apply_negate(binding, bind_in_query(binding, scope, node), node)
    if row_parts(node.this) is not None:
        rows = [bind_row_equality(binding, scope, node.this, item, node) for item in node.expressions]
        found = rows[0] if len(rows) == 1 else call(binding, "or", rows, node)
        return _apply_negate(binding, found, node)
    values = [binding.expression(scope, part) for part in (node.this, *node.expressions)]
    if len(values) == 2:
        return _apply_negate(binding, call(binding, "eq", values, node), node)
    values = coerce_to_common(
        binding, values, [node.this, *node.expressions], "IN list types", common_list_type
    )
    by_words = values[0].type.kind is not Kind.INTERVAL
    if by_words and all(isinstance(value, Literal) for value in values[1:]):
        found = call(binding, "in", values, node)
    else:
        tests = [call(binding, "eq", [values[0], value], node) for value in values[1:]]
        found = tests[0] if len(tests) == 1 else call(binding, "or", tests, node)
    return _apply_negate(binding, found, node)


def _bind_between(binding: Binding, scope: Scope, node: exp.Between) -> Scalar:
    allow_only(node, binding.source, "this", "low", "high", "negate", "symmetric")
    if (
        sum(1 for _ in node.this.find_all(exp.Between)) > MAX_NESTED_BETWEENS
    ):  # each level doubles its operand
        binding.refuse(f"BETWEEN of a value with more than {MAX_NESTED_BETWEENS} BETWEENs in it", node)
    value, low, high = (binding.expression(scope, node.args[part]) for part in ("this", "low", "high"))
    found = _range_test(binding, value, low, high, node)
    if node.args.get("symmetric"):
        found = call(binding, "or", [found, _range_test(binding, value, high, low, node)], node)
    return _apply_negate(binding, found, node)


def _range_test(binding: Binding, value: Scalar, low: Scalar, high: Scalar, node: exp.Expr) -> Scalar:
    bounds = [call(binding, "ge", [value, low], node), call(binding, "le", [value, high], node)]
    return call(binding, "and", bounds, node)


def _bind_is(binding: Binding, scope: Scope, node: exp.Is) -> Scalar:
    allow_only(node, binding.source, "this", "expression", "negate")
    parts = row_parts(node.this)
    starred = any(part.is_star for part in parts or ())
    if parts is not None and not starred and isinstance(node.expression, exp.Null):
        return bind_row_is_null(binding, scope, parts, node)
    operand = binding.expression(scope, node.this)
    match node.expression:
        case exp.Null() if operand.type.kind is Kind.RECORD:
            name = "$row_is_not_null" if node.args.get("negate") else "$row_is_null"
            return Call(name, (operand,), BOOLEAN)
        case exp.Null():
            if operand.type == UNKNOWN and isinstance(operand, Literal):
                operand = default_to_text(operand)
            found = call(binding, "is_null", [operand], node)
            return call(binding, "is_not_null", [operand], node) if node.args.get("negate") else found
        case exp.Boolean(this=value):
            tested = coerce_to_boolean(binding, operand, node.this, "IS")
            return _apply_negate(
                binding, call(binding, "is_not_distinct", [tested, Literal(int(value), BOOLEAN)], node), node
            )
        case exp.JSON():
            return _bind_is_json(binding, operand, node)
        case other:
            binding.refuse(f"IS {other.sql('postgres')}", node)


def _bind_is_json(binding: Binding, operand: Scalar, node: exp.Is) -> Scalar:
    """Bind ``IS JSON [VALUE | SCALAR | ARRAY | OBJECT] [WITH UNIQUE KEYS]``."""
    kind = str(node.expression.this or "value").lower()
    if node.expression.args.get("unique") and node.expression.args.get("with_"):
        kind += " unique"
    found = call(binding, "is_json", [coerce(operand, TEXT), Literal(kind, TEXT)], node)
    return _apply_negate(binding, found, node)


def _bind_like(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    escape = None
    pattern = node
    if isinstance(node, exp.Escape):
        allow_only(node, binding.source, "this", "expression")
        escape, pattern = node.expression, node.this
    if isinstance(pattern, exp.SimilarTo):
        allow_only(pattern, binding.source, "this", "expression")
        parts = [pattern.this, pattern.expression, escape]
        return call(binding, "similar_to", [binding.expression(scope, part) for part in parts], node)
    if not isinstance(pattern, exp.Like | exp.ILike):
        binding.refuse("ESCAPE here", node)
    allow_only(pattern, binding.source, "this", "expression", "negate")
    parts = [pattern.this, pattern.expression, *([escape] if escape is not None else [])]
    name = "like" if isinstance(pattern, exp.Like) else "ilike"
    args = [binding.expression(scope, part) for part in parts]
    if args[0].type.is_padded:  # trailing blanks count in pattern matching
        args[0] = call(binding, "rpad", [args[0], Literal(args[0].type.precision, INTEGER)], node)
    return _apply_negate(binding, call(binding, name, args, node), pattern)


PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)


def expand_pattern_quantifier(node: exp.Expr) -> exp.Expr | None:
    """Return ``a LIKE ANY (ARRAY[p, q])`` as ``a LIKE p OR a LIKE q``, and ALL with AND; else None."""
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
