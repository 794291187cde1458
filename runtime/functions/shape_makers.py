"""Shapes of numbers, of points and of other shapes."""

from kpg.runtime.functions.registry import Memoized, Overload, scalar
from kpg.runtime.functions.rules import among
from kpg.runtime.functions.shape_rules import Case, Code, alone, overload
from kpg.runtime.types import BOX, CIRCLE, DOUBLE, INTEGER, LINE, LSEG, PATH, POINT, POLYGON, Type
from kpg.runtime.values import figures
from kpg.runtime.values.geometry import Circle, Point, Segment, box_of, through
from kpg.runtime.values.plane import alike
from kpg.runtime.values.shape_casts import CONVERSIONS


def same(value: object) -> object:
    """The value itself."""
    return value


def _around_center(center: Point, radius: float) -> Circle:
    return Circle(center, radius)


def _line(one: Point, other: Point) -> object:
    if alike(one, other):
        raise ValueError("invalid line specification: must be two distinct points")
    return through(one, other)


def _maker(target: Type, accepts: str, example: tuple[str, str], *more: Case) -> None:
    name = target.kind.value.lower()
    converted = [
        ((Type(source),), code) for (wanted, source), code in CONVERSIONS.items() if wanted is target.kind
    ]
    overloads = [overload(target, args, code) for args, code in more]
    overloads += [
        Overload(among(frozenset({args[0].kind}), target, *args), _kept(code)) for args, code in converted
    ]
    overloads.append(Overload(alone(target, target), _kept(same)))
    scalar(name, accepts, f"A {name} of its parts, or of another shape.", dict([example]), *overloads)


def _kept(code: Code) -> Memoized:
    return Memoized(lambda call: code)


_maker(
    POINT,
    "two numbers, or a BOX, CIRCLE, LSEG or POLYGON",
    ("point(1, 2)::TEXT", "'(1,2)'"),
    ((DOUBLE, DOUBLE), Point),
)
_maker(
    BOX,
    "two POINTs, or a POINT, CIRCLE or POLYGON",
    ("box(point '(0,1)', point '(1,0)')::TEXT", "'(1,1),(0,0)'"),
    ((POINT, POINT), box_of),
)
_maker(
    CIRCLE,
    "a POINT and a radius, or a BOX or POLYGON",
    ("circle(point '(0,0)', 2)::TEXT", "'<(0,0),2>'"),
    ((POINT, DOUBLE), _around_center),
)
_maker(
    LINE, "two POINTs", ("line(point '(0,0)', point '(1,1)')::TEXT", "'{1,-1,0}'"), ((POINT, POINT), _line)
)
_maker(
    LSEG,
    "two POINTs, or a BOX",
    ("lseg(point '(0,0)', point '(1,1)')::TEXT", "'[(0,0),(1,1)]'"),
    ((POINT, POINT), Segment),
)
_maker(PATH, "a POLYGON", ("path(polygon '((0,0),(1,1))')::TEXT", "'((0,0),(1,1))'"))
_maker(
    POLYGON,
    "a BOX, CIRCLE or closed PATH, or a number of points and a CIRCLE",
    ("polygon(box '(1,1),(0,0)')::TEXT", "'((0,0),(0,1),(1,1),(1,0))'"),
    ((INTEGER, CIRCLE), lambda count, circle: figures.polygon_of(circle, count)),
)
