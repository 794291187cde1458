"""Comparisons of shapes by their sizes, and the sizes themselves."""

import math
from collections.abc import Callable

from kpg.runtime.functions.shape_rules import Case, Code, define
from kpg.runtime.types import BOOLEAN, BOX, CIRCLE, DOUBLE, INTEGER, LINE, LSEG, PATH, POINT, POLYGON, Type
from kpg.runtime.values import figures, plane
from kpg.runtime.values.geometry import (
    Segment,
    near,
    slope,
)
from kpg.runtime.values.plane import alike, below, up_to


def _area_of(shape: Type) -> Callable[..., float]:
    return figures.box_area if shape == BOX else lambda x: math.pi * (x.radius * x.radius)


def _sizes(test: Callable[[float, float], bool], *shapes: Type) -> tuple[Case, ...]:
    return tuple(((shape, shape), _of_sizes(test, _size_of(shape))) for shape in shapes)


def _size_of(shape: Type) -> Callable[..., float]:
    """What ``<`` compares: areas, lengths, numbers of points."""
    if shape == LSEG:
        return plane.length
    if shape == PATH:
        return lambda x: float(len(x.points))
    return _area_of(shape)


def _of_sizes(test: Callable[[float, float], bool], size: Callable[..., float]) -> Code:
    return lambda x, y: test(size(x), size(y))


define(
    "same_size",
    "two shapes",
    "Whether areas, or numbers of points, or lines are equal (``=`` of shapes).",
    {"same_size(box '(1,1),(0,0)', box '(3,3),(2,2)')": "TRUE"},
    BOOLEAN,
    *_sizes(near, BOX, CIRCLE, PATH),
    ((LSEG, LSEG), lambda x, y: all(map(alike, x, y))),
    ((LINE, LINE), plane.same_line),
)
define(
    "other_size",
    "two shapes",
    "Whether they differ (``<>`` of shapes).",
    {"other_size(point '(1,1)', point '(0,0)')": "TRUE"},
    BOOLEAN,
    *_sizes(lambda x, y: not near(x, y), CIRCLE),
    ((POINT, POINT), lambda x, y: not alike(x, y)),
    ((LSEG, LSEG), lambda x, y: not all(map(alike, x, y))),
)
define(
    "smaller",
    "two shapes",
    "Whether the area, length or number of points is less (``<`` of shapes).",
    {"smaller(circle '<(0,0),1>', circle '<(0,0),2>')": "TRUE"},
    BOOLEAN,
    *_sizes(below, BOX, CIRCLE, LSEG),
    *_sizes(lambda x, y: x < y, PATH),
)
define(
    "smaller_or_same",
    "two shapes",
    "Whether the area, length or number of points is not more (``<=`` of shapes).",
    {"smaller_or_same(circle '<(0,0),1>', circle '<(5,0),1>')": "TRUE"},
    BOOLEAN,
    *_sizes(up_to, BOX, CIRCLE, LSEG, PATH),
)
define(
    "larger",
    "two shapes",
    "Whether the area, length or number of points is more (``>`` of shapes).",
    {"larger(lseg '[(0,0),(0,3)]', lseg '[(0,0),(1,1)]')": "TRUE"},
    BOOLEAN,
    *_sizes(lambda x, y: below(y, x), BOX, CIRCLE, LSEG),
    *_sizes(lambda x, y: x > y, PATH),
)
define(
    "larger_or_same",
    "two shapes",
    "Whether the area, length or number of points is not less (``>=`` of shapes).",
    {"larger_or_same(box '(2,2),(0,0)', box '(1,1),(0,0)')": "TRUE"},
    BOOLEAN,
    *_sizes(lambda x, y: up_to(y, x), BOX, CIRCLE, LSEG, PATH),
)
define(
    "area",
    "a BOX, PATH or CIRCLE",
    "The area; NULL of an open path.",
    {"area(box '(2,2),(0,0)')": "4e0"},
    DOUBLE,
    ((BOX,), figures.box_area),
    ((PATH,), lambda x: figures.enclosed(x.points) if x.closed else None),
    ((CIRCLE,), _area_of(CIRCLE)),
)
define(
    "center",
    "a BOX or CIRCLE",
    "The point in the middle.",
    {"center(box '(1,2),(0,0)')::TEXT": "'(0.5,1)'"},
    POINT,
    ((BOX,), figures.box_center),
    ((CIRCLE,), lambda x: x.center),
)
define(
    "middle_of",
    "a BOX, CIRCLE, LSEG or POLYGON",
    "The point in the middle (``@@``).",
    {"middle_of(box '(1,2),(0,0)')::TEXT": "'(0.5,1)'"},
    POINT,
    ((BOX,), figures.box_center),
    ((CIRCLE,), lambda x: x.center),
    ((LSEG,), plane.middle),
    ((POLYGON,), lambda x: figures.circle_of(x).center),
)
define(
    "diagonal",
    "a BOX",
    "The diagonal of a box.",
    {"diagonal(box '(1,2),(0,0)')::TEXT": "'[(1,2),(0,0)]'"},
    LSEG,
    ((BOX,), lambda x: Segment(x.high, x.low)),
)
define(
    "diameter",
    "a CIRCLE",
    "Twice the radius.",
    {"diameter(circle '<(0,0),2>')": "4e0"},
    DOUBLE,
    ((CIRCLE,), lambda x: x.radius * 2.0),
)
define(
    "radius",
    "a CIRCLE",
    "The radius.",
    {"radius(circle '<(0,0),2>')": "2e0"},
    DOUBLE,
    ((CIRCLE,), lambda x: x.radius),
)
define(
    "height",
    "a BOX",
    "How high a box is.",
    {"height(box '(1,2),(0,0)')": "2e0"},
    DOUBLE,
    ((BOX,), lambda x: x.high.y - x.low.y),
)
define(
    "width",
    "a BOX",
    "How wide a box is.",
    {"width(box '(1,2),(0,0)')": "1e0"},
    DOUBLE,
    ((BOX,), lambda x: x.high.x - x.low.x),
)
define(
    "isclosed",
    "a PATH",
    "Whether a path is closed.",
    {"isclosed(path '((0,0),(1,1),(2,0))')": "TRUE"},
    BOOLEAN,
    ((PATH,), lambda x: x.closed),
)
define(
    "isopen",
    "a PATH",
    "Whether a path is open.",
    {"isopen(path '[(0,0),(1,1),(2,0)]')": "TRUE"},
    BOOLEAN,
    ((PATH,), lambda x: not x.closed),
)
define(
    "pclose",
    "a PATH",
    "The path as a closed one.",
    {"pclose(path '[(0,0),(1,1)]')::TEXT": "'((0,0),(1,1))'"},
    PATH,
    ((PATH,), lambda x: x._replace(closed=True)),
)
define(
    "popen",
    "a PATH",
    "The path as an open one.",
    {"popen(path '((0,0),(1,1))')::TEXT": "'[(0,0),(1,1)]'"},
    PATH,
    ((PATH,), lambda x: x._replace(closed=False)),
)
define(
    "npoints",
    "a PATH or POLYGON",
    "How many points there are (``#``).",
    {"npoints(path '[(0,0),(1,1),(2,0)]')": "3"},
    INTEGER,
    ((PATH,), lambda x: len(x.points)),
    ((POLYGON,), lambda x: len(x.points)),
)
define(
    "path_length",
    "an LSEG or PATH",
    "How long it is (``@-@``).",
    {"path_length(path '[(0,0),(1,0),(1,1)]')": "2e0"},
    DOUBLE,
    ((LSEG,), plane.length),
    ((PATH,), figures.path_length),
)
define(
    "slope",
    "two POINTs",
    "The slope of the line through two points.",
    {"slope(point '(0,0)', point '(2,1)')": "0.5e0"},
    DOUBLE,
    ((POINT, POINT), slope),
)
define(
    "bound_box",
    "two BOXes",
    "The smallest box that has both.",
    {"bound_box(box '(1,1),(0,0)', box '(4,4),(3,3)')::TEXT": "'(4,4),(0,0)'"},
    BOX,
    ((BOX, BOX), lambda x, y: figures.around((*x, *y))),
)
