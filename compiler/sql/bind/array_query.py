"""ARRAY(query): the values of a query with one column, in its order, as an array."""

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding

VALUE, KEY = "array_value", "array_key_"


def as_aggregate(binding: Binding, query: exp.Query | exp.Values, node: exp.Expr) -> exp.Expr:
    """The same as a subquery with ``array_agg``, ordered as the query is."""
    query = query.copy()
    keys: list[exp.Expr] = []
    order = query.args.get("order")
    if order is not None and isinstance(query, exp.Select) and len(query.expressions) == 1:
        names = [VALUE]
        for place, key in enumerate(order.expressions):
            column = _column(query, key.this, place)
            names += [column] if column != VALUE else []
            keys.append(_ordered(key, column))
    else:
        names = [VALUE]
        for key in order.expressions if order is not None else ():
            if not isinstance(key.this, exp.Column | exp.Literal):
                binding.refuse("ORDER BY an expression over a combined query within ARRAY(...)", node)
            keys.append(_ordered(key, VALUE))  # it has no other column
    alias = exp.TableAlias(this=exp.to_identifier("array_query"), columns=list(map(exp.to_identifier, names)))
    source = exp.Subquery(this=query, alias=alias)
    operand: exp.Expr = exp.column(VALUE)
    if keys:
        operand = exp.Order(this=operand, expressions=keys)
    made = exp.Anonymous(this="array_agg", expressions=[operand])
    return exp.Subquery(this=exp.Select(expressions=[made], from_=exp.From(this=source)))


def _column(query: exp.Select, key: exp.Expr, place: int) -> str:
    """The column by which is ordered: the value itself, by its position or name, or one more."""
    (value,) = query.expressions
    named = isinstance(key, exp.Column) and not key.table
    if (named and key.name.lower() == value.alias_or_name.lower()) or (
        isinstance(key, exp.Literal) and key.is_int
    ):
        return VALUE
    name = f"{KEY}{place}"
    query.append("expressions", exp.alias_(key.copy(), name))
    return name


def _ordered(key: exp.Expr, column: str) -> exp.Expr:
    ordered = key.copy()
    ordered.set("this", exp.column(column))
    return ordered
