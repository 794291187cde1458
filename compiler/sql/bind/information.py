"""Calls of the system whose values are rows and arrays."""

from dataclasses import replace

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bind.whole_rows import made_row
from kpg.compiler.system.words import path_of
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import TEXT, array
from kpg.runtime.values import codec_of


def bind_information(binding: Binding, scope: Scope, node: exp.Dot) -> Scalar:
    """``information_schema._pg_expandarray(array)``, a row (element, place) for each element."""
    call_, name = node.expression, str(node.expression.this).lower()
    if name != "_pg_expandarray" or len(call_.expressions) != 1:
        binding.refuse(f"function information_schema.{name}", node)
    array_ = call_.expressions[0]
    places = exp.Anonymous(
        this="generate_series",
        expressions=[
            exp.Literal.number(1),
            exp.Anonymous(this="cardinality", expressions=[array_.copy()]),
        ],
    )
    row = made_row(binding, scope, [exp.Anonymous(this="unnest", expressions=[array_.copy()]), places])
    return replace(row, type=replace(row.type, labels=("x", "n")))


def schemas_of(binding: Binding, implicit: exp.Expr) -> Scalar:
    """``current_schemas(implicit)``: the search path."""
    everything = isinstance(implicit, exp.Boolean) and implicit.this
    listed = ",".join([*(["pg_catalog"] if everything else ()), *path_of(binding.catalog)])
    codec = codec_of(array(TEXT))
    return Literal(codec.encode(codec.parse("{" + listed + "}")), array(TEXT))
