"""Boxes, paths, polygons and circles: what lies in what, what meets, how far apart they are."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from kpg.runtime.values.geometry import Box, Circle, Path, Point, Polygon, Segment, box_of, near
from kpg.runtime.values.plane import (
    Found,
    alike,
    apart,
    meeting,
    nearest_between,
    nearest_on,
    on_segment,
    up_to,
    zero,
)

OUTSIDE, INSIDE, BORDER = 0, 1, 2
AROUND: Final = 12
"""The corners of a polygon that stands for a circle."""


def corners(box: Box) -> tuple[Segment, Segment, Segment, Segment]:
    """The sides of a box: left, above, right, below."""
    (right, top), (left, bottom) = box
    return (
        Segment(box.low, Point(left, top)),
        Segment(box.high, Point(left, top)),
        Segment(box.low, Point(right, bottom)),
        Segment(box.high, Point(right, bottom)),
    )


def box_center(box: Box) -> Point:
    """The point in the middle of a box."""
    return Point((box.high.x + box.low.x) / 2.0, (box.high.y + box.low.y) / 2.0)


def box_area(box: Box) -> float:
    """How large a box is."""
    return (box.high.x - box.low.x) * (box.high.y - box.low.y)


def boxes_meet(one: Box, other: Box) -> bool:
    """Whether two boxes have a point in common."""
    return (
        up_to(one.low.x, other.high.x)
        and up_to(other.low.x, one.high.x)
        and up_to(one.low.y, other.high.y)
        and up_to(other.low.y, one.high.y)
    )


def box_has_box(outer: Box, inner: Box) -> bool:
    """Whether a box is within another."""
    return (
        up_to(inner.high.x, outer.high.x)
        and up_to(outer.low.x, inner.low.x)
        and up_to(inner.high.y, outer.high.y)
        and up_to(outer.low.y, inner.low.y)
    )


def box_has(box: Box, point: Point) -> bool:
    """Whether a point is in a box, or on its border."""
    return box.low.x <= point.x <= box.high.x and box.low.y <= point.y <= box.high.y


def common_box(one: Box, other: Box) -> Box | None:
    """What two boxes have in common."""
    if not boxes_meet(one, other):
        return None
    return Box(
        Point(min(one.high.x, other.high.x), min(one.high.y, other.high.y)),
        Point(max(one.low.x, other.low.x), max(one.low.y, other.low.y)),
    )


def nearest_in_box(box: Box, point: Point) -> Found:
    """The place of a box that is the nearest to a point."""
    if box_has(box, point):
        return point, 0.0
    return _nearest(nearest_on(side, point) for side in corners(box))


def segment_to_box(box: Box, segment: Segment) -> Found:
    """The place of a box that is the nearest to a segment."""
    if segment_meets_box(segment, box):
        return nearest_on(segment, box_center(box))[0], 0.0
    return _nearest(nearest_between(side, segment) for side in corners(box))


def _nearest(found: Iterable[Found]) -> Found:
    best: Found = (None, math.inf)
    for place in found:
        if best[0] is None or place[1] < best[1]:
            best = place
    return best


def segment_meets_box(segment: Segment, box: Box) -> bool:
    """Whether a segment and a box have a point in common."""
    if not boxes_meet(box_of(*segment), box):
        return False
    if any(box_has(box, end) for end in segment):
        return True
    return any(meeting(segment, side) is not None for side in corners(box))


def sides(points: Sequence[Point], *, closed: bool) -> list[Segment]:
    """The segments between points, and, of what is closed, that from the last to the first before them."""
    found = [Segment(one, other) for one, other in pairwise(points)]
    return [Segment(points[-1], points[0]), *found] if closed else found


def path_sides(path: Path) -> list[Segment]:
    """The segments of a path."""
    return sides(path.points, closed=path.closed)


def path_length(path: Path) -> float:
    """How long a path is, with its way back if it is closed."""
    total = 0.0
    for side in path_sides(path):
        total += apart(*side)
    return total


def enclosed(points: Sequence[Point]) -> float:
    """The area within points."""
    total = 0.0
    for one, other in zip(points, [*points[1:], points[0]], strict=True):
        total += one.x * other.y
        total -= one.y * other.x
    return abs(total) / 2.0


def paths_apart(one: Path, other: Path) -> float | None:
    """The least distance of two paths' segments; None if one of them has none."""
    found = [nearest_between(x, y)[1] for x in path_sides(one) for y in path_sides(other)]
    return min(found, default=None)


def paths_meet(one: Path, other: Path) -> bool:
    """Whether two paths cross."""
    if not boxes_meet(around(one.points), around(other.points)):
        return False
    return any(meeting(x, y) is not None for x in path_sides(one) for y in path_sides(other))


def point_to_path(path: Path, point: Point) -> float:
    """The distance of a point from a path."""
    if len(path.points) == 1:
        return apart(point, path.points[0])
    return min(nearest_on(side, point)[1] for side in path_sides(path))


def path_has(path: Path, point: Point) -> bool:
    """Whether a point is on an open path, or in a closed one."""
    if path.closed:
        return place_in(point, path.points) != OUTSIDE
    return any(
        near(apart(one, point) + apart(point, other), apart(one, other))
        for one, other in pairwise(path.points)
    )


def around(points: Sequence[Point]) -> Box:
    """The smallest box that has all points."""
    return Box(
        Point(max(point.x for point in points), max(point.y for point in points)),
        Point(min(point.x for point in points), min(point.y for point in points)),
    )


def place_in(point: Point, points: Sequence[Point]) -> int:
    """Whether a point is outside of a polygon, inside, or on its border."""
    total = 0
    before = Point(points[0].x - point.x, points[0].y - point.y)
    first = before
    for corner in [*points[1:], None]:
        here = first if corner is None else Point(corner.x - point.x, corner.y - point.y)
        crossed = _crossed(here, before)
        if crossed is None:
            return BORDER
        total += crossed
        before = here
    return OUTSIDE if total == 0 else INSIDE


def _crossed(here: Point, before: Point) -> int | None:
    """How a side crosses the positive part of the x axis, in halves; None if it goes through the origin."""
    (x, y), (before_x, before_y) = here, before
    if zero(y):
        if zero(x):
            return None
        if x > 0:
            if zero(before_y):
                return 0 if before_x > 0 else None
            return 1 if before_y < 0 else -1
        if zero(before_y):
            return 0 if before_x < 0 else None
        return 0
    sign = 1 if y > 0 else -1
    if zero(before_y):
        return 0 if before_x < 0 else sign
    if (y < 0) == (before_y < 0):
        return 0
    if x >= 0 and before_x > 0:
        return 2 * sign
    if x < 0 and before_x <= 0:
        return 0
    turn = (x - before_x) * y - (y - before_y) * x
    if zero(turn):
        return None
    return 0 if (y < 0) == (turn < 0) else 2 * sign


def same_polygon(one: Polygon, other: Polygon) -> bool:
    """Whether two polygons have the same points in the same order, from some start, either way round."""
    mine, theirs = one.points, other.points
    count = len(mine)
    if count != len(theirs):
        return False
    return any(
        all(alike(mine[place], theirs[(start + step * place) % count]) for place in range(count))
        for start in range(count)
        for step in (1, -1)
    )


def polygons_meet(one: Polygon, other: Polygon) -> bool:
    """Whether two polygons have a point in common."""
    if not boxes_meet(around(one.points), around(other.points)):
        return False
    mine, theirs = sides(one.points, closed=True), sides(other.points, closed=True)
    if any(meeting(x, y) is not None for x in mine for y in theirs):
        return True
    return (
        place_in(one.points[0], other.points) != OUTSIDE or place_in(other.points[0], one.points) != OUTSIDE
    )


def polygon_has(outer: Polygon, inner: Polygon) -> bool:
    """Whether a polygon is within another."""
    if not box_has_box(around(outer.points), around(inner.points)):
        return False
    return all(_has_side(side, outer.points, 0) for side in sides(inner.points, closed=True))


def _has_side(side: Segment, points: Sequence[Point], start: int) -> bool:
    """Whether a segment is within a polygon, of which sides before the place do not touch it."""
    if any(place_in(end, points) == OUTSIDE for end in side):
        return False
    count = len(points)
    touches = False
    for place in range(start, count):
        border = Segment(points[place - 1], points[place])
        ends = [on_segment(end, border) for end in side]
        if all(ends):
            return True
        if any(ends):
            loose = side.start if ends[1] else side.end
            touches = True
            if not _touched(loose, border, points, place + 1):
                return False
        else:
            place_of = meeting(side, border)
            if place_of is not None:
                touches = True
                halves = (Segment(side.start, place_of), Segment(side.end, place_of))
                return all(_has_side(half, points, place + 1) for half in halves)
    if touches:
        return place_in(Point(*((a + b) / 2.0 for a, b in zip(*side, strict=True))), points) != OUTSIDE
    return True


def _touched(loose: Point, border: Segment, points: Sequence[Point], place: int) -> bool:
    """Of a segment that begins on a side: whether the rest of it from the corner on is within too."""
    for corner in border:
        if on_segment(corner, Segment(loose, border.start)) and not alike(corner, border.start):
            return _has_side(Segment(loose, corner), points, place)
    return True


def polygons_apart(one: Polygon, other: Polygon) -> float:
    """The distance of two polygons."""
    if polygons_meet(one, other):
        return 0.0
    mine, theirs = sides(one.points, closed=True), sides(other.points, closed=True)
    return min(nearest_between(x, y)[1] for x in mine for y in theirs)


def point_to_polygon(polygon: Polygon, point: Point) -> float:
    """The distance of a point from a polygon."""
    if place_in(point, polygon.points) != OUTSIDE:
        return 0.0
    return min(nearest_on(side, point)[1] for side in sides(polygon.points, closed=True))


def circle_of(polygon: Polygon) -> Circle:
    """A circle about the mean of the corners, whose radius is their mean distance from it."""
    points, count = polygon.points, len(polygon.points)
    x = y = radius = 0.0
    for point in points:
        x, y = x + point.x, y + point.y
    center = Point(x / count, y / count)
    for point in points:
        radius += apart(point, center)
    return Circle(center, radius / count)


def polygon_of(circle: Circle, count: int = AROUND) -> Polygon:
    """A polygon of so many corners on a circle."""
    if circle.radius == 0:
        raise ValueError("cannot convert circle with radius zero to polygon")
    if count < 2:
        raise ValueError("must request at least 2 points")
    step = 2.0 * math.pi / count
    (x, y), radius = circle
    return Polygon(
        tuple(
            Point(x - radius * math.cos(step * place), y + radius * math.sin(step * place))
            for place in range(count)
        )
    )
