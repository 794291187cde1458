"""The function of arrays that computes an aggregate of users: its step and its result as scalars."""

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import ARRAYS, ELEMENTS, Aggregate, ArrayFold, settled
from kpg.compiler.sql.bind.calls import brought, coerce
from kpg.compiler.sql.bind.calls import settled as settled_scalar
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.bodies import body_of
from kpg.compiler.sql.folds import LENIENT, PREFIX, called, shown
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import castable
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Call, Column, Scalar
from kpg.runtime.types import TEXT, UNKNOWN, Kind, Type, array


def bind_fold(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar | None:
    """The value of a call of a fold; None for anything else."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if not name.startswith(PREFIX):
        return None
    known = (one for group in binding.catalog.aggregates.values() for one in group)
    one = next((each for each in known if each.fold == name), None)
    if one is None:
        return None
    values = [settled_scalar(binding.expression(scope, part)) for part in node.expressions]
    given = tuple(value.type.parts[0] if value.type.kind is Kind.ARRAY else TEXT for value in values)
    fold = fold_of(binding.catalog, one, given)
    arrays = tuple(
        brought(binding, value, array(item), node) for value, item in zip(values, fold.items, strict=True)
    )
    assert binding.catalog.fold_function is not None
    return Call(binding.catalog.fold_function(fold), arrays, fold.result)


def gathered(one: Aggregate, given: tuple[Type, ...]) -> tuple[Type, ...]:
    """The types of the elements of an aggregate's arrays; arrays are gathered as texts."""
    if not one.types:
        return given
    pairs = zip(one.types, given, strict=True)
    return tuple(
        TEXT if type_.kind is Kind.ARRAY else element if type_.name in (*ELEMENTS, *ARRAYS) else type_
        for type_, element in pairs
    )


def is_strict(catalog: Catalog, one: Aggregate) -> bool:
    """Whether the function for a step takes no NULLs."""
    plain = one.step.lower().removeprefix("pg_catalog.")
    schema, _, name = plain.rpartition(".")
    routines = [
        each
        for each in catalog.find_routines(name, schema)
        if len(each.parameters) == 1 + len(one.types) or any(part.variadic for part in each.parameters)
    ]
    return routines[0].strict if routines else plain not in LENIENT


def fold_of(catalog: Catalog, one: Aggregate, given: tuple[Type, ...]) -> ArrayFold:
    """The fold of arrays with elements of these types."""
    items = gathered(one, given)
    pairs = zip(one.types, items, strict=False)
    meant = next((item for type_, item in pairs if type_.name in ELEMENTS), UNKNOWN)
    state = settled(one.state, meant)
    columns = [Field("", "s", Column(0, state))]
    columns += [Field("", f"x{place}", Column(place, item)) for place, item in enumerate(items, 1)]
    operands = [
        f"x{place}::{shown(type_)}" if type_.kind is Kind.ARRAY else f"x{place}"
        for place, type_ in enumerate(one.types, 1)
    ]
    first = "NULL" if one.init is None else "'" + one.init.replace("'", "''") + "'"
    strict = is_strict(catalog, one)
    starts = strict and one.init is None and bool(one.types)
    start_columns = [Field("", "x1", Column(0, items[0]))] if starts else []
    start = operands[0] if starts else ""
    final = _computed(catalog, one, called(one.final, ("s",)) if one.final else "s", columns[:1], None)
    return ArrayFold(
        f"{one.fold}({', '.join(str(array(item)) for item in items)})",
        items,
        state,
        _mfp(_computed(catalog, one, first, [], state)),
        _mfp(_computed(catalog, one, called(one.step, ("s", *operands)), columns, state)),
        _mfp(final),
        final.type,
        strict,
        _mfp(_computed(catalog, one, start, start_columns, state)) if starts else None,
    )


def _mfp(scalar: Scalar) -> Mfp:
    return Mfp((), (scalar,))


def _computed(
    catalog: Catalog, one: Aggregate, text: str, fields: list[Field], target: Type | None
) -> Scalar:
    """An expression over some columns, as a value of a type if one is wanted."""
    binding = new_binding(f"SELECT {text}", catalog)
    node = body_of(f"SELECT {text}").expressions[0]
    scalar = binding.expression(Scope(fields=fields), node)
    if target is None:
        scalar = settled_scalar(scalar)
    elif scalar.type == UNKNOWN:
        scalar = brought(binding, scalar, target, node)
    elif scalar.type != target:
        if not castable(scalar.type, target):
            message = f"{scalar.type} cannot be the state of aggregate {one.name}, which is {target}"
            raise ProgrammingError(message)
        scalar = coerce(scalar, target)
    if binding.subqueries:
        raise NotSupportedError(
            f"aggregate {one.name}, whose functions ask queries, is not supported",
            hint="Write its functions as expressions over their arguments.",
        )
    return scalar
