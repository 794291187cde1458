"""LIMIT, OFFSET and FETCH: the first rows of a query; WITH TIES, also those that equal the last of them."""

from dataclasses import replace

from sqlglot import exp

from kpg.compiler.sql.bind.calls import call, coerce, settled
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.syntax import only
from kpg.compiler.sql.tree import Filter, Query, SortKey, TopK, Window
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, Kind


def limited(binding: Binding, query: Query, order: tuple[SortKey, ...], node: exp.Expr) -> Query:
    """The query in its order, and only the rows that its LIMIT and OFFSET leave."""
    clause = node.args.get("limit")
    if binding.kept and any(_asks(node.args.get(name)) for name in ("limit", "offset")):
        return replace(query, node=_by_number(binding, query, order, node), order=order)
    limit = _row_count(binding, clause, "LIMIT")
    offset = _row_count(binding, node.args.get("offset"), "OFFSET") or 0
    if clause is not None and _has_ties(binding, clause):
        if not order:
            binding.wrong("WITH TIES needs an ORDER BY", clause)
        if limit is not None:
            return replace(query, node=_with_ties(binding, query, order, limit, offset), order=order)
    if limit is None and not offset:
        return replace(query, order=order)
    return replace(query, node=TopK(query.node, (), order, limit, offset), order=order)


def _asks(clause: exp.Expr | None) -> bool:
    """Whether a clause takes its number from a query."""
    return clause is not None and clause.find(exp.Query) is not None


def _by_number(binding: Binding, query: Query, order: tuple[SortKey, ...], node: exp.Expr) -> Filter:
    """The rows whose numbers are between those that queries say: a view follows these, too."""
    limit, offset = (_asked(binding, node.args.get(name), name.upper()) for name in ("limit", "offset"))
    if node.args.get("limit") is not None and _has_ties(binding, node.args["limit"]):
        binding.refuse("WITH TIES of a number that a query says, in a view", node.args["limit"])
    number = Column(binding.fresh(), BIGINT)
    window = Window(query.node, (), order, (), (number.index,), (WindowCall("row_number", (), BIGINT),))
    skipped = call(binding, "coalesce", [offset, Literal(0, BIGINT)], node)
    last = call(binding, "add", [skipped, limit], node)
    within = call(binding, "coalesce", [call(binding, "le", [number, last], node), Literal(1, BOOLEAN)], node)
    return Filter(window, (call(binding, "gt", [number, skipped], node), within))


def _asked(binding: Binding, clause: exp.Expr | None, name: str) -> Scalar:
    if clause is None:
        return Literal(None, BIGINT)
    value: exp.Expr = clause.args["count"] if isinstance(clause, exp.Fetch) else clause.expression
    count = settled(binding.expression(Scope(clause=name), value))
    if not count.type.is_numeric:
        shown = "text" if count.type.is_text else str(count.type).lower()
        binding.wrong(f"argument of {name} must be type bigint, not type {shown}", clause)
    return coerce(count, BIGINT)


def _has_ties(binding: Binding, clause: exp.Expr) -> bool:
    options = clause.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        binding.refuse("FETCH with PERCENT", clause)
    return options is not None and bool(options.args.get("with_ties"))


def _with_ties(binding: Binding, query: Query, order: tuple[SortKey, ...], limit: int, offset: int) -> Filter:
    """The rows of rank ``offset + limit`` at most that are not among the first ``offset``."""
    rank, number = Column(binding.fresh(), BIGINT), Column(binding.fresh(), BIGINT)
    calls = (WindowCall("rank", (), BIGINT), WindowCall("row_number", (), BIGINT))
    window = Window(query.node, (), order, (), (rank.index, number.index), calls)
    within = Call("le", (rank, Literal(offset + limit, BIGINT)), BOOLEAN)
    beyond = Call("gt", (number, Literal(offset, BIGINT)), BOOLEAN)
    return Filter(window, (within, beyond) if limit else (Literal(0, BOOLEAN),))


def _row_count(binding: Binding, clause: exp.Expr | None, name: str) -> int | None:
    """The number that a clause says, a constant; None for all rows."""
    if clause is None:
        return None
    if isinstance(clause, exp.Fetch):
        only(clause, binding.source, "direction", "count", "limit_options")
        value = clause.args.get("count") or exp.Literal.number(1)
    else:
        only(clause, binding.source, "expression")
        value = clause.expression
    if isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
        return None
    constant = _constant(binding.expression(Scope(clause=name), value))
    if not isinstance(constant, Literal):
        binding.refuse(f"{name} with anything but a constant", clause)
    if constant.value is None:
        return None
    count = _whole(constant)
    if count is None:
        given = f"'{constant.value}'" if isinstance(constant.value, str) else constant.type
        binding.wrong(f"{name} needs a whole number, not {given}", clause)
    if count < 0:
        binding.wrong(f"{name} must not be negative", clause)
    return count


def _whole(constant: Literal) -> int | None:
    """The number that a constant of any exact type is, rounded."""
    if isinstance(constant.value, str):
        return int(constant.value) if constant.value.strip().lstrip("+-").isdecimal() else None
    if constant.type.is_exact and constant.value is not None:
        unit: int = 10**constant.type.scale if constant.type.kind is Kind.DECIMAL else 1
        return (constant.value + unit // 2) // unit
    return None


def _constant(scalar: Scalar) -> Scalar:
    """Sums, differences and products of constants, as users of LIMIT write them, as one."""
    if not isinstance(scalar, Call) or scalar.function not in ("add", "sub", "mul", "cast", "neg"):
        return scalar
    parts = [_constant(arg) for arg in scalar.args]
    if any(isinstance(part, Literal) and part.value is None for part in parts):
        return Literal(None, scalar.type)
    values = [part.value for part in parts if isinstance(part, Literal) and isinstance(part.value, int)]
    if len(values) < len(parts) or not all(part.type.is_integer for part in (*parts, scalar)):
        return scalar
    first, *rest = values
    match scalar.function:
        case "add":
            first += rest[0]
        case "sub":
            first -= rest[0]
        case "mul":
            first *= rest[0]
        case "neg":
            first = -first
    return Literal(first, scalar.type)
