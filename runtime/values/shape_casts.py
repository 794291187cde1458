"""Casts between shapes."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from kpg.runtime.types import Kind
from kpg.runtime.values import figures, plane
from kpg.runtime.values.geometry import Box, Circle, Path, Point, Polygon, Segment


def _inner_box(circle: Circle) -> Box:
    delta = circle.radius / math.sqrt(2.0)
    (x, y), _ = circle
    return Box(Point(x + delta, y + delta), Point(x - delta, y - delta))


def _outer_circle(box: Box) -> Circle:
    center = figures.box_center(box)
    return Circle(center, plane.apart(center, box.high))


def _closed_points(path: Path) -> Polygon:
    if not path.closed:
        raise ValueError("open path cannot be converted to polygon")
    return Polygon(path.points)


def _box_points(box: Box) -> Polygon:
    (right, top), (left, bottom) = box
    return Polygon((box.low, Point(left, top), box.high, Point(right, bottom)))


CONVERSIONS: Final[Mapping[tuple[Kind, Kind], Callable[..., object]]] = {
    (Kind.POINT, Kind.BOX): figures.box_center,
    (Kind.POINT, Kind.CIRCLE): lambda x: x.center,
    (Kind.POINT, Kind.LSEG): plane.middle,
    (Kind.POINT, Kind.POLYGON): lambda x: figures.circle_of(x).center,
    (Kind.BOX, Kind.POINT): lambda x: Box(x, x),
    (Kind.BOX, Kind.CIRCLE): _inner_box,
    (Kind.BOX, Kind.POLYGON): lambda x: figures.around(x.points),
    (Kind.CIRCLE, Kind.BOX): _outer_circle,
    (Kind.CIRCLE, Kind.POLYGON): figures.circle_of,
    (Kind.LSEG, Kind.BOX): lambda x: Segment(x.high, x.low),
    (Kind.PATH, Kind.POLYGON): lambda x: Path(x.points, closed=True),
    (Kind.POLYGON, Kind.PATH): _closed_points,
    (Kind.POLYGON, Kind.BOX): _box_points,
    (Kind.POLYGON, Kind.CIRCLE): figures.polygon_of,
}
"""Casts: what a shape is of another kind, by target and source."""
