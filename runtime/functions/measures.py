"""Operators that only shapes have: distances, crossings, angles, which is above which."""

import math

from kpg.runtime.functions.shape_rules import define, either
from kpg.runtime.types import BOOLEAN, BOX, CIRCLE, DOUBLE, LINE, LSEG, PATH, POINT, POLYGON
from kpg.runtime.values import figures, plane
from kpg.runtime.values.geometry import (
    Box,
    Circle,
    Line,
    Point,
    Segment,
    near,
    slope,
)
from kpg.runtime.values.plane import alike, below, up_to, zero


def _from_circle(circle: Circle, point: Point) -> float:
    return max(0.0, plane.apart(circle.center, point) - circle.radius)


define(
    "distance_between",
    "two shapes",
    "The distance (``<->``).",
    {"distance_between(point '(0,0)', point '(3,4)')": "5e0"},
    DOUBLE,
    ((POINT, POINT), plane.apart),
    ((LINE, LINE), plane.lines_apart),
    ((LSEG, LSEG), lambda x, y: plane.nearest_between(x, y)[1]),
    ((BOX, BOX), lambda x, y: plane.apart(figures.box_center(x), figures.box_center(y))),
    ((PATH, PATH), figures.paths_apart),
    ((POLYGON, POLYGON), figures.polygons_apart),
    ((CIRCLE, CIRCLE), lambda x, y: max(0.0, plane.apart(x.center, y.center) - (x.radius + y.radius))),
    *either(POINT, LINE, lambda x, y: plane.nearest_on_line(y, x)[1]),
    *either(POINT, LSEG, lambda x, y: plane.nearest_on(y, x)[1]),
    *either(POINT, BOX, lambda x, y: figures.nearest_in_box(y, x)[1]),
    *either(POINT, PATH, lambda x, y: figures.point_to_path(y, x)),
    *either(POINT, POLYGON, lambda x, y: figures.point_to_polygon(y, x)),
    *either(POINT, CIRCLE, lambda x, y: _from_circle(y, x)),
    *either(LSEG, LINE, lambda x, y: plane.nearest_to_line(x, y)[1]),
    *either(LSEG, BOX, lambda x, y: figures.segment_to_box(y, x)[1]),
    *either(CIRCLE, POLYGON, lambda x, y: max(0.0, figures.point_to_polygon(y, x.center) - x.radius)),
)
define(
    "closest_point",
    "two shapes",
    "The place of the second that is the nearest to the first (``##``).",
    {"closest_point(point '(0,0)', lseg '[(2,0),(0,2)]')::TEXT": "'(1,1)'"},
    POINT,
    ((POINT, BOX), lambda x, y: figures.nearest_in_box(y, x)[0]),
    ((POINT, LSEG), lambda x, y: plane.nearest_on(y, x)[0]),
    ((POINT, LINE), lambda x, y: plane.nearest_on_line(y, x)[0]),
    ((LSEG, BOX), lambda x, y: figures.segment_to_box(y, x)[0]),
    ((LSEG, LSEG), lambda x, y: None if _parallel(x, y) else plane.nearest_between(y, x)[0]),
    ((LINE, LSEG), lambda x, y: None if _along(y, x) else plane.nearest_to_line(y, x)[0]),
)


def _parallel(one: Segment, other: Segment) -> bool:
    return _same_slope(slope(*one), slope(*other))


def _same_slope(one: float, other: float) -> bool:
    return one == other or near(one, other)


def _along(segment: Segment, line: Line) -> bool:
    return plane.crossing(plane.line_of(segment), line) is None


def _perpendicular(one: Segment, other: Segment) -> bool:
    return _same_slope(slope(*one), plane.across(*other))


def _line_meets_box(line: Line, box: Box) -> bool:
    return any(plane.line_meeting(side, line) is not None for side in figures.corners(box))


define(
    "intersects",
    "two shapes",
    "Whether two shapes have a point in common (``?#``).",
    {"intersects(lseg '[(-1,0),(1,0)]', box '(2,2),(-2,-2)')": "TRUE"},
    BOOLEAN,
    ((BOX, BOX), figures.boxes_meet),
    ((PATH, PATH), figures.paths_meet),
    ((LSEG, LSEG), lambda x, y: plane.meeting(x, y) is not None),
    ((LINE, LINE), lambda x, y: plane.crossing(x, y) is not None),
    ((LSEG, BOX), figures.segment_meets_box),
    ((LSEG, LINE), lambda x, y: plane.line_meeting(x, y) is not None),
    ((LINE, BOX), _line_meets_box),
)
define(
    "isparallel",
    "two LSEGs or LINEs",
    "Whether they are parallel (``?||``).",
    {"isparallel(lseg '[(-1,0),(1,0)]', lseg '[(-1,2),(1,2)]')": "TRUE"},
    BOOLEAN,
    ((LSEG, LSEG), _parallel),
    ((LINE, LINE), lambda x, y: plane.crossing(x, y) is None),
)
define(
    "isperp",
    "two LSEGs or LINEs",
    "Whether they are at right angles (``?-|``).",
    {"isperp(lseg '[(0,0),(0,1)]', lseg '[(0,0),(1,0)]')": "TRUE"},
    BOOLEAN,
    ((LSEG, LSEG), _perpendicular),
    ((LINE, LINE), plane.perpendicular),
)
define(
    "ishorizontal",
    "an LSEG, a LINE or two POINTs",
    "Whether it is horizontal (``?-``).",
    {"ishorizontal(lseg '[(-1,0),(1,0)]')": "TRUE"},
    BOOLEAN,
    ((LSEG,), lambda x: near(x.start.y, x.end.y)),
    ((LINE,), lambda x: zero(x.a)),
    ((POINT, POINT), lambda x, y: near(x.y, y.y)),
)
define(
    "isvertical",
    "an LSEG, a LINE or two POINTs",
    "Whether it is vertical (``?|``).",
    {"isvertical(point '(0,1)', point '(0,0)')": "TRUE"},
    BOOLEAN,
    ((LSEG,), lambda x: near(x.start.x, x.end.x)),
    ((LINE,), lambda x: zero(x.b)),
    ((POINT, POINT), lambda x, y: near(x.x, y.x)),
)
define(
    "same_as",
    "two shapes",
    "Whether two shapes are the same (``~=``).",
    {"same_as(polygon '((0,0),(1,1))', polygon '((1,1),(0,0))')": "TRUE"},
    BOOLEAN,
    ((POINT, POINT), alike),
    ((BOX, BOX), lambda x, y: all(map(alike, x, y))),
    ((POLYGON, POLYGON), figures.same_polygon),
    ((CIRCLE, CIRCLE), lambda x, y: alike(x.center, y.center) and _near(x.radius, y.radius)),
)


def _near(one: float, other: float) -> bool:
    return near(one, other) or (math.isnan(one) and math.isnan(other))


define(
    "is_below",
    "two shapes",
    "Whether the first is below the second (``<<|``).",
    {"is_below(box '(3,3),(0,0)', box '(5,5),(3,4)')": "TRUE"},
    BOOLEAN,
    ((POINT, POINT), lambda x, y: below(x.y, y.y)),
)
define(
    "is_above",
    "two shapes",
    "Whether the first is above the second (``|>>``).",
    {"is_above(box '(5,5),(3,4)', box '(3,3),(0,0)')": "TRUE"},
    BOOLEAN,
    ((POINT, POINT), lambda x, y: below(y.y, x.y)),
)
define(
    "not_above",
    "two shapes",
    "Whether the first does not extend above the second (``&<|``).",
    {"not_above(box '(1,1),(0,0)', box '(2,2),(0,0)')": "TRUE"},
    BOOLEAN,
    ((BOX, BOX), lambda x, y: up_to(x.high.y, y.high.y)),
)
define(
    "not_below",
    "two shapes",
    "Whether the first does not extend below the second (``|&>``).",
    {"not_below(box '(3,3),(0,0)', box '(2,2),(0,0)')": "TRUE"},
    BOOLEAN,
    ((BOX, BOX), lambda x, y: up_to(y.low.y, x.low.y)),
)
define(
    "touches_from_below",
    "two BOXes or POINTs",
    "Whether the first is below the second, or touches it (``<^``).",
    {"touches_from_below(box '((1,1),(0,0))', box '((2,2),(1,1))')": "TRUE"},
    BOOLEAN,
    ((BOX, BOX), lambda x, y: up_to(x.high.y, y.low.y)),
    ((POINT, POINT), lambda x, y: below(x.y, y.y)),
)
define(
    "touches_from_above",
    "two BOXes or POINTs",
    "Whether the first is above the second, or touches it (``>^``).",
    {"touches_from_above(box '((2,2),(1,1))', box '((1,1),(0,0))')": "TRUE"},
    BOOLEAN,
    ((BOX, BOX), lambda x, y: up_to(y.high.y, x.low.y)),
    ((POINT, POINT), lambda x, y: below(y.y, x.y)),
)
