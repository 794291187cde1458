"""Parameter types that the text alone determines, and EXPLAIN (GENERIC_PLAN).

A cast of a parameter decides its type, as in Postgres: the client sends a value of that type. Otherwise a
parameter takes the type of what it meets in arithmetic, a comparison or alternatives. A parameter used as a
condition is boolean.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from sqlglot import exp

from kpg.compiler.sql.parse.parameters import Marker, rewritten, slot_of, trees_of
from kpg.compiler.sql.parse.syntax import transformed
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.runtime.errors import Error
from kpg.runtime.plan import Plan
from kpg.runtime.scalar import Fetch, Literal
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, INTERVAL, NUMERIC, UNKNOWN, Type, array

MEETING: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Predicate, exp.Coalesce, exp.Case)
"""Whose parts are of one type."""
Assignments = tuple[tuple[exp.Identifier, exp.Expr], ...]
LARGEST: Final = 2**31 - 1
Known = Callable[[Type], Type]
"""What the catalog says a name of a type means; raises an error if there is no such type."""


Types = dict[int, Type]
"""By the places of parameters, counted from 0."""


def types_of_places(statement: object, known: Known) -> tuple[Types, Types]:
    """The types that parameters are cast to, or have as conditions; and those that they meet."""
    cast: Types = {}
    met: Types = {}
    if (place := _place(getattr(statement, "where", None))) is not None:
        cast[place] = BOOLEAN
    for tree in trees_of(statement):
        for node in tree.walk():
            if isinstance(node, exp.Cast):
                place, type_ = _place(node.this), _named_place(node, known)
                if place is not None and type_ is not None:
                    cast.setdefault(place, type_)
            elif isinstance(node, MEETING) or _chooses(node):
                for place, type_ in _beside(node, known):
                    met.setdefault(place, type_)
            elif isinstance(node, exp.Anonymous) and node.name.lower() == "round":
                met |= {place: INTEGER for one in node.expressions[1:] if (place := _place(one)) is not None}
            for condition in _conditions(node):
                if (place := _place(condition)) is not None:
                    cast.setdefault(place, BOOLEAN)
    return cast, met


def _conditions(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are true or false."""
    match node:
        case exp.Case() if not node.this:
            return [one.this for one in node.args["ifs"]]
        case exp.And() | exp.Or():
            return [node.this, node.expression]
        case exp.Not() | exp.Where() | exp.Having():
            return [node.this]
        case _:
            return []


def places_assigned(assignments: Assignments) -> Iterator[tuple[str, int]]:
    """Of the assignments of a parameter as it is, the column and the parameter's place."""
    for column, value in assignments:
        place = _place(value)
        if place is not None:
            yield column.name.lower(), place


def _place(node: object) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return int(node.name) - 1
    return None


def _chooses(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in (
        "coalesce",
        "greatest",
        "least",
        "nullif",
    )


def _beside(node: exp.Expr, known: Known) -> Iterator[tuple[int, Type]]:
    """The types of parameters among the parts of a node, by the parts that have one."""
    parts = list(node.expressions)
    if isinstance(node, exp.Case):
        parts = [one.args["true"] for one in node.args["ifs"]] + [node.args.get("default")]
    elif not isinstance(node, exp.Anonymous):
        parts += [node.this, node.args.get("expression"), node.args.get("low"), node.args.get("high")]
    types = [type_ for part in parts if (type_ := _type(part, known)) is not None]
    if not types:
        return
    for part in parts:
        # Beside = ANY (...) is an array of what is looked for.
        if isinstance(part, exp.Any | exp.All) and (place := _place(part.this)) is not None:
            yield place, array(types[0])
    type_ = NUMERIC if NUMERIC in types else types[0]
    if type_ == INTERVAL and isinstance(node, exp.Mul | exp.Div):
        type_ = DOUBLE
    yield from ((place, type_) for part in parts if (place := _place(part)) is not None)


def _type(node: object, known: Known) -> Type | None:
    """The type of a part that is a number, an interval or a cast."""
    match node:
        case exp.Literal(is_string=False):
            if not node.name.isdigit():
                return NUMERIC
            return INTEGER if int(node.name) <= LARGEST else BIGINT
        case exp.Neg() | exp.Paren():
            return _type(node.this, known)
        case exp.Interval():
            return INTERVAL
        case exp.Cast():
            return _named_place(node, known)
        case exp.Predicate() | exp.Not() | exp.And() | exp.Or():
            return BOOLEAN
        case _:
            return None


def _named_place(node: exp.Cast, known: Known) -> Type | None:
    try:
        return known(sql_type(node.args["to"], ""))
    except Error:
        return None


Part = TypeVar("Part")
PARAMETER: Final = "$"
"""The table that parameters without values are columns of, where a plan is only shown: none is called so."""


def without_values(statement: Part) -> Part:
    """The statement with an open constant in the place of each parameter."""

    def opened(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter) or not node.name.isdigit():
            return node
        return exp.Literal(this=Marker.of(int(node.name), UNKNOWN), is_string=True)

    return rewritten(statement, lambda tree: transformed(tree, opened) if tree.find(exp.Parameter) else tree)


def named(plan: Plan) -> Plan:
    """The plan with what is shown as $1, $2, ... in the place of open constants; it cannot be run."""
    return cast("Plan", _named(plan))


def _named(part: Any) -> Any:
    if isinstance(part, Literal):
        slot = slot_of(part)
        return part if slot is None else Fetch(PARAMETER, slot.number, Literal(None, part.type), part.type)
    if isinstance(part, tuple):
        items = tuple(map(_named, part))
        return part if all(new is old for new, old in zip(items, part, strict=True)) else items
    if isinstance(part, Type) or not is_dataclass(part) or isinstance(part, type):
        return part
    values = {one.name: getattr(part, one.name) for one in fields(part) if one.init}
    new = {name: _named(value) for name, value in values.items()}
    return part if all(new[name] is values[name] for name in values) else type(part)(**new)
