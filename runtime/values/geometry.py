"""POINT, LINE, LSEG, BOX, PATH, POLYGON and CIRCLE: what they are made of, as text and back.

A value's string is the text that stands for it, with all digits: values are equal strings if they are alike
in every bit. What ``=`` means is another matter, see ``functions.shapes``.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, spelled

FLOAT: Final = r"[-+]?(?:nan|inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
PAIR: Final = re.compile(rf"\s*(?:\(\s*({FLOAT})\s*,\s*({FLOAT})\s*\)|({FLOAT})\s*,\s*({FLOAT}))\s*", re.I)
LINE: Final = re.compile(rf"\s*\{{\s*({FLOAT})\s*,\s*({FLOAT})\s*,\s*({FLOAT})\s*\}}\s*", re.I)
RADIUS: Final = re.compile(rf"\s*,?\s*({FLOAT})\s*", re.I)
MOST: Final = 1.7976931348623157e308


class Point(NamedTuple):
    x: float
    y: float


class Line(NamedTuple):
    """``a * x + b * y + c = 0``."""

    a: float
    b: float
    c: float


class Segment(NamedTuple):
    start: Point
    end: Point


class Box(NamedTuple):
    """The corners right above and left below."""

    high: Point
    low: Point


class Path(NamedTuple):
    points: tuple[Point, ...]
    closed: bool


class Polygon(NamedTuple):
    points: tuple[Point, ...]


class Circle(NamedTuple):
    center: Point
    radius: float


def codec(type_: Type) -> Codec:
    """The codec of one of the types."""
    parse, show, example = FORMS[type_.kind]
    expected = f"a text such as {example}"
    return spelled(parse, lambda value: show(value, _shown), lambda value: show(value, repr), parse, expected)


def _shown(number: float) -> str:
    from kpg.runtime.values.text import shown_double

    return shown_double(number)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f'"{text}" is out of range for type double precision')
    return value


def _points(text: str) -> list[Point]:
    """Points that commas divide."""
    found: list[Point] = []
    place = 0
    while True:
        match = PAIR.match(text, place)
        if match is None:
            raise ValueError("no point")
        x, y = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
        found.append(Point(_number(x), _number(y)))
        place = match.end()
        if place == len(text):
            return found
        if text[place] != ",":
            raise ValueError("no point")
        place += 1


def _several(text: str) -> tuple[list[Point], bool]:
    """The points of a text, with parentheses around them or none, and whether there were square brackets."""
    plain = text.strip()
    if plain[:1] == "[" and plain[-1:] == "]":
        return _points(plain[1:-1]), True
    if plain[:1] == "(" and plain[-1:] == ")" and _encloses(plain):
        return _points(plain[1:-1]), False
    return _points(plain), False


def _encloses(text: str) -> bool:
    """Whether the first parenthesis goes with the last, and is not that of a single point."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return place == len(text) - 1 and ("(" in text[1:] or text.count(",") > 1)
    return False


def parse_point(text: str) -> Point:
    """The point that a text means; ValueError if none."""
    found = PAIR.fullmatch(text)
    if found is None:
        raise ValueError("no point")
    x, y = (found[1], found[2]) if found[1] is not None else (found[3], found[4])
    return Point(_number(x), _number(y))


def parse_line(text: str) -> Line:
    """A line by its coefficients or by two points."""
    found = LINE.fullmatch(text)
    if found is None:
        points, _ = _several(text)
        if len(points) != 2:
            raise ValueError("no line")
        if points[0] == points[1]:
            raise ValueError("invalid line specification: must be two distinct points")
        return through(*points)
    a, b, c = map(_number, found.groups())
    if abs(a) <= EPSILON and abs(b) <= EPSILON:
        raise ValueError("invalid line specification: A and B cannot both be zero")
    return Line(a, b, c)


def parse_segment(text: str) -> Segment:
    """Two points."""
    points, _ = _several(text)
    if len(points) != 2:
        raise ValueError("no line segment")
    return Segment(*points)


def parse_box(text: str) -> Box:
    """Two opposite corners."""
    points, bracketed = _several(text)
    if len(points) != 2 or bracketed:
        raise ValueError("no box")
    return box_of(*points)


def parse_path(text: str) -> Path:
    """Points, in square brackets if the path is open."""
    points, bracketed = _several(text)
    return Path(tuple(points), not bracketed)


def parse_polygon(text: str) -> Polygon:
    """Points."""
    points, bracketed = _several(text)
    if bracketed:
        raise ValueError("no polygon")
    return Polygon(tuple(points))


def parse_circle(text: str) -> Circle:
    """A center and a radius."""
    plain = text.strip()
    if (plain[:1], plain[-1:]) == ("<", ">") or (plain[:2].replace(" ", "") == "((" or _wrapped(plain)):
        plain = plain[1:-1]
    found = PAIR.match(plain)
    rest = RADIUS.fullmatch(plain, found.end()) if found is not None else None
    if found is None or rest is None:
        raise ValueError("no circle")
    x, y = (found[1], found[2]) if found[1] is not None else (found[3], found[4])
    radius = _number(rest[1])
    if radius < 0:
        raise ValueError("no circle")
    return Circle(Point(_number(x), _number(y)), radius)


def _wrapped(text: str) -> bool:
    return text[:1] == "(" and text[1:].lstrip()[:1] == "(" and text[-1:] == ")"


EPSILON: Final = 1.0e-06
"""How far numbers may be apart that shapes take for equal."""


def plus(number: float) -> float:
    """The number, a negative zero as zero."""
    return number + 0.0


def box_of(one: Point, other: Point) -> Box:
    """The box between two opposite corners."""
    return Box(
        Point(_larger(one.x, other.x), _larger(one.y, other.y)),
        Point(_smaller(one.x, other.x), _smaller(one.y, other.y)),
    )


def _larger(left: float, right: float) -> float:
    """Of NaNs and others a NaN, which is above all numbers."""
    return left if math.isnan(left) or left > right else right


def _smaller(left: float, right: float) -> float:
    return right if _larger(left, right) is left else left


def through(one: Point, other: Point) -> Line:
    """The line through two points."""
    return sloped(one, slope(one, other))


def sloped(point: Point, by: float) -> Line:
    """The line through a point with a slope."""
    if math.isinf(by):
        return Line(-1.0, 0.0, point.x)
    if by == 0:
        return Line(0.0, -1.0, point.y)
    return Line(by, -1.0, plus(point.y - by * point.x))


def slope(one: Point, other: Point) -> float:
    """How steep it is from one point to the other; infinite if they are above each other."""
    if near(one.x, other.x):
        return math.inf
    if near(one.y, other.y):
        return 0.0
    return (one.y - other.y) / (one.x - other.x)


def near(left: float, right: float) -> bool:
    """Whether two numbers are taken for equal."""
    return left == right or abs(left - right) <= EPSILON


Digits = Callable[[float], str]


def _pair(point: Point, digits: Digits) -> str:
    return f"({digits(point.x)},{digits(point.y)})"


def _list(points: Sequence[Point], digits: Digits) -> str:
    return ",".join(_pair(point, digits) for point in points)


FORMS: Final[dict[Kind, tuple[Callable[[str], Any], Callable[[Any, Digits], str], str]]] = {
    Kind.POINT: (parse_point, _pair, "'(1, 2)'"),
    Kind.LINE: (
        parse_line,
        lambda line, digits: "{" + ",".join(map(digits, line)) + "}",
        "'{1, -1, 0}'",
    ),
    Kind.LSEG: (parse_segment, lambda segment, digits: f"[{_list(segment, digits)}]", "'[(1, 2), (3, 4)]'"),
    Kind.BOX: (parse_box, _list, "'(3, 4), (1, 2)'"),
    Kind.PATH: (
        parse_path,
        lambda path, digits: (
            f"({_list(path.points, digits)})" if path.closed else f"[{_list(path.points, digits)}]"
        ),
        "'[(1, 2), (3, 4), (5, 0)]'",
    ),
    Kind.POLYGON: (
        parse_polygon,
        lambda polygon, digits: f"({_list(polygon.points, digits)})",
        "'((1, 2), (3, 4), (5, 0))'",
    ),
    Kind.CIRCLE: (
        parse_circle,
        lambda circle, digits: f"<{_pair(circle.center, digits)},{digits(circle.radius)}>",
        "'<(1, 2), 3>'",
    ),
}
"""How each type is read, written, and what an example is."""
