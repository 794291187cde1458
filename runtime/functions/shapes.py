"""Points, lines, boxes, paths, polygons and circles in functions and operators of other types."""

import math
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.registry import Memoized, Overload, extend, primitive
from kpg.runtime.functions.rules import among
from kpg.runtime.types import (
    BOOLEAN,
    BOX,
    CIRCLE,
    DOUBLE,
    LINE,
    LSEG,
    PATH,
    POINT,
    POLYGON,
    SHAPE_KINDS,
    Type,
)
from kpg.runtime.values import figures, plane
from kpg.runtime.values.geometry import Box, Circle, Path, Point, Segment, box_of, near
from kpg.runtime.values.plane import below, hypotenuse, up_to

Code = Callable[..., object]
NAMES: Final = {
    POINT: "a POINT",
    LINE: "a LINE",
    LSEG: "an LSEG",
    BOX: "a BOX",
    PATH: "a PATH",
    POLYGON: "a POLYGON",
    CIRCLE: "a CIRCLE",
}


def define(name: str, result: Type, args: tuple[Type, ...], code: Code) -> None:
    """An overload of a function for a shape."""
    accepts = " and ".join(NAMES.get(arg, "a number") for arg in args)
    extend(name, accepts, Overload(among(SHAPE_KINDS, result, *args), Memoized(lambda call: code)))


def moved(point: Point, by: Point) -> Point:
    """A point farther on."""
    return Point(point.x + by.x, point.y + by.y)


def back(point: Point, by: Point) -> Point:
    """A point the other way."""
    return Point(point.x - by.x, point.y - by.y)


def turned(point: Point, by: Point) -> Point:
    """A point scaled and turned: the product of complex numbers."""
    return Point(point.x * by.x - point.y * by.y, point.x * by.y + point.y * by.x)


def unturned(point: Point, by: Point) -> Point:
    """The quotient of complex numbers."""
    size = by.x * by.x + by.y * by.y
    if size == 0:
        raise ZeroDivisionError
    return Point(
        (point.x * by.x + point.y * by.y) / size,
        (point.y * by.x - point.x * by.y) / size,
    )


def _checked(code: Callable[[Point, Point], Point]) -> Callable[[Point, Point], Point]:
    def apply(point: Point, by: Point) -> Point:
        found = code(point, by)
        if any(map(math.isinf, found)) and not any(map(math.isinf, (*point, *by))):
            raise OverflowError("value out of range: overflow")
        return found

    return apply


def _of_box(code: Callable[[Point, Point], Point]) -> Callable[[Box, Point], Box]:
    return lambda box, by: box_of(code(box.high, by), code(box.low, by))


def _of_path(code: Callable[[Point, Point], Point]) -> Callable[[Path, Point], Path]:
    return lambda path, by: path._replace(points=tuple(code(point, by) for point in path.points))


def _scaled(circle: Circle, by: Point) -> Circle:
    return Circle(turned(circle.center, by), circle.radius * hypotenuse(*by))


def _unscaled(circle: Circle, by: Point) -> Circle:
    return Circle(unturned(circle.center, by), circle.radius / hypotenuse(*by))


def _joined(one: Path, other: Path) -> Path | None:
    if one.closed or other.closed:
        return None
    return Path((*one.points, *other.points), closed=False)


for _name, _code in (("add", moved), ("sub", back), ("mul", turned), ("div", unturned)):
    _one = _checked(_code)
    define(_name, POINT, (POINT, POINT), _one)
    define(_name, BOX, (BOX, POINT), _of_box(_one))
    define(_name, PATH, (PATH, POINT), _of_path(_one))
define("add", PATH, (PATH, PATH), _joined)
define("add", CIRCLE, (CIRCLE, POINT), lambda x, by: x._replace(center=moved(x.center, by)))
define("sub", CIRCLE, (CIRCLE, POINT), lambda x, by: x._replace(center=back(x.center, by)))
define("mul", CIRCLE, (CIRCLE, POINT), _scaled)
define("div", CIRCLE, (CIRCLE, POINT), _unscaled)


def _ends(shape: Type) -> Callable[..., Box]:
    """The box around a shape, whose sides are compared."""
    if shape == BOX:
        return lambda x: x
    if shape == POLYGON:
        return lambda x: figures.around(x.points)
    return lambda x: Box(
        Point(x.center.x + x.radius, x.center.y + x.radius),
        Point(x.center.x - x.radius, x.center.y - x.radius),
    )


def _sides(shape: Type) -> None:
    """Left of, above and so on, by the boxes around; of polygons without a tolerance."""
    around = _ends(shape)
    less: Callable[[float, float], bool] = below
    least: Callable[[float, float], bool] = up_to
    if shape == POLYGON:
        less, least = (lambda x, y: x < y), (lambda x, y: x <= y)
    tests: dict[str, Callable[[Box, Box], bool]] = {
        "shift_left": lambda x, y: less(x.high.x, y.low.x),
        "not_right_of": lambda x, y: least(x.high.x, y.high.x),
        "shift_right": lambda x, y: less(y.high.x, x.low.x),
        "not_left_of": lambda x, y: least(y.low.x, x.low.x),
        "is_below": lambda x, y: less(x.high.y, y.low.y),
        "not_above": lambda x, y: least(x.high.y, y.high.y),
        "is_above": lambda x, y: less(y.high.y, x.low.y),
        "not_below": lambda x, y: least(y.low.y, x.low.y),
    }
    for name, test in tests.items():
        define(name, BOOLEAN, (shape, shape), _about(test, around))


def _about(test: Callable[[Box, Box], bool], around: Callable[..., Box]) -> Code:
    return lambda x, y: test(around(x), around(y))


for _shape in (BOX, POLYGON, CIRCLE):
    _sides(_shape)
define("shift_left", BOOLEAN, (POINT, POINT), lambda x, y: below(x.x, y.x))
define("shift_right", BOOLEAN, (POINT, POINT), lambda x, y: below(y.x, x.x))


def _circles_apart(one: Circle, other: Circle) -> float:
    return plane.apart(one.center, other.center)


def _circle_has(circle: Circle, point: Point) -> bool:
    return plane.apart(circle.center, point) <= circle.radius


def _line_has(line: object, segment: Segment) -> bool:
    return all(plane.on_line(end, line) for end in segment)  # type: ignore[arg-type]


HOLDS: Final[tuple[tuple[Type, Type, Code], ...]] = (
    (BOX, BOX, figures.box_has_box),
    (BOX, POINT, figures.box_has),
    (POLYGON, POLYGON, figures.polygon_has),
    (POLYGON, POINT, lambda x, y: figures.place_in(y, x.points) != figures.OUTSIDE),
    (CIRCLE, CIRCLE, lambda x, y: up_to(_circles_apart(x, y), x.radius - y.radius)),
    (CIRCLE, POINT, _circle_has),
    (PATH, POINT, figures.path_has),
)
for _outer, _inner, _code2 in HOLDS:
    define("contains_all", BOOLEAN, (_outer, _inner), _code2)
for _outer, _inner, _code2 in (
    *HOLDS,
    (LINE, POINT, lambda x, y: plane.on_line(y, x)),
    (LSEG, POINT, lambda x, y: plane.on_segment(y, x)),
    (LINE, LSEG, _line_has),
    (BOX, LSEG, lambda x, y: all(figures.box_has(x, end) for end in y)),
):
    define("contained_in", BOOLEAN, (_inner, _outer), (lambda code: lambda x, y: code(y, x))(_code2))
define("overlaps_with", BOOLEAN, (BOX, BOX), figures.boxes_meet)
define("overlaps_with", BOOLEAN, (POLYGON, POLYGON), figures.polygons_meet)
define(
    "overlaps_with", BOOLEAN, (CIRCLE, CIRCLE), lambda x, y: up_to(_circles_apart(x, y), x.radius + y.radius)
)
define("bitwise_xor", BOX, (BOX, BOX), figures.common_box)
define("bitwise_xor", POINT, (LSEG, LSEG), plane.meeting)
define("bitwise_xor", POINT, (LINE, LINE), plane.crossing)
define("any_key_exists", BOOLEAN, (POINT, POINT), lambda x, y: near(x.x, y.x))
define("length", DOUBLE, (LSEG,), plane.length)
define("length", DOUBLE, (PATH,), figures.path_length)


def part(value: tuple[object, ...], place: int) -> object:
    """A coordinate of a point or coefficient of a line, an end of a segment, a corner of a box."""
    return value[place] if 0 <= place < len(value) else None


primitive("$shape_part", Memoized(lambda call: part))
