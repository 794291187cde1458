"""Points, lines and segments: where they meet, how far apart they are, which place is the nearest.

Numbers are compared with a tolerance, as Postgres does: ``below(x, y)`` is by more than that.
"""

import math

from kpg.runtime.values.geometry import EPSILON, Line, Point, Segment, near, plus, slope, sloped

Found = tuple[Point | None, float]
"""The nearest place, and how far it is."""


def below(left: float, right: float) -> bool:
    """Less, by more than numbers that are taken for equal."""
    return left + EPSILON < right


def up_to(left: float, right: float) -> bool:
    """Less or equal."""
    return left <= right + EPSILON


def zero(number: float) -> bool:
    """Taken for zero."""
    return abs(number) <= EPSILON


def alike(one: Point, other: Point) -> bool:
    """Whether two points are the same."""
    if any(map(math.isnan, (*one, *other))):
        return all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in zip(one, other, strict=True))
    return near(one.x, other.x) and near(one.y, other.y)


def hypotenuse(x: float, y: float) -> float:
    """The length of a vector, rounded as Postgres rounds it."""
    if math.isinf(x) or math.isinf(y):
        return math.inf
    longer, shorter = max(abs(x), abs(y)), min(abs(x), abs(y))
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if shorter == 0.0:
        return longer
    ratio = shorter / longer
    return longer * math.sqrt(1.0 + ratio * ratio)


def apart(one: Point, other: Point) -> float:
    """The distance of two points."""
    return hypotenuse(one.x - other.x, one.y - other.y)


def across(one: Point, other: Point) -> float:
    """The slope of what is perpendicular to the line through two points."""
    if near(one.x, other.x):
        return 0.0
    if near(one.y, other.y):
        return math.inf
    return (one.x - other.x) / (other.y - one.y)


def length(segment: Segment) -> float:
    """How long a segment is."""
    return apart(*segment)


def middle(segment: Segment) -> Point:
    """The point in the middle."""
    (x1, y1), (x2, y2) = segment
    return Point((x1 + x2) / 2.0, (y1 + y2) / 2.0)


def on_segment(point: Point, segment: Segment) -> bool:
    """Whether a point is on a segment."""
    return near(apart(point, segment.start) + apart(point, segment.end), length(segment))


def on_line(point: Point, line: Line) -> bool:
    """Whether a point is on a line."""
    return zero(line.a * point.x + line.b * point.y + line.c)


def line_of(segment: Segment) -> Line:
    """The line that a segment is a part of."""
    return sloped(segment.start, slope(*segment))


def crossing(one: Line, other: Line) -> Point | None:
    """Where two lines meet; None if they are parallel."""
    if zero(one.b):
        if zero(other.b):
            return None
        one, other = other, one
    if near(other.a, one.a * (other.b / one.b)):
        return None
    x = (one.b * other.c - other.b * one.c) / (one.a * other.b - other.a * one.b)
    return Point(plus(x), plus(-(one.a * x + one.c) / one.b))


def same_line(one: Line, other: Line) -> bool:
    """Whether two lines are the same, by whatever coefficients."""
    if any(map(math.isnan, (*one, *other))):
        return all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in zip(one, other, strict=True))
    ratio = next((x / y for x, y in zip(one, other, strict=True) if not zero(y)), 1.0)
    return all(near(x, ratio * y) for x, y in zip(one, other, strict=True))


def perpendicular(one: Line, other: Line) -> bool:
    """Whether two lines meet at a right angle."""
    if zero(one.a):
        return zero(other.b)
    if zero(other.a):
        return zero(one.b)
    if zero(one.b):
        return zero(other.a)
    if zero(other.b):
        return zero(one.a)
    return near((one.a * other.a) / (one.b * other.b), -1.0)


def lines_apart(one: Line, other: Line) -> float:
    """The distance of two lines, 0 if they meet."""
    if crossing(one, other) is not None:
        return 0.0
    ratio = next((x / y for x, y in zip(one[:2], other[:2], strict=True) if not zero(x) and not zero(y)), 1.0)
    return abs(one.c - ratio * other.c) / hypotenuse(one.a, one.b)


def meeting(one: Segment, other: Segment) -> Point | None:
    """Where two segments meet; None if they do not, or are parallel."""
    place = line_meeting(one, line_of(other))
    return place if place is not None and on_segment(place, other) else None


def line_meeting(segment: Segment, line: Line) -> Point | None:
    """Where a segment meets a line; one of its ends if it is there."""
    place = crossing(line_of(segment), line)
    if place is None or not on_segment(place, segment):
        return None
    return next((end for end in segment if alike(end, place)), place)


def nearest_on_line(line: Line, point: Point) -> Found:
    """The place of a line that is the nearest to a point."""
    if zero(line.a):
        steep = math.inf
    else:
        steep = 0.0 if zero(line.b) else line.b / line.a
    place = crossing(line, sloped(point, steep))
    if place is None:
        return None, math.nan
    return place, apart(place, point)


def nearest_to_line(segment: Segment, line: Line) -> Found:
    """The place of a segment that is the nearest to a line."""
    place = line_meeting(segment, line)
    if place is not None:
        return place, 0.0
    first, second = (nearest_on_line(line, end)[1] for end in segment)
    return (segment.start, first) if first < second else (segment.end, second)


def nearest_on(segment: Segment, point: Point) -> Found:
    """The place of a segment that is the nearest to a point."""
    place, _ = nearest_to_line(segment, sloped(point, across(*segment)))
    assert place is not None
    return place, apart(place, point)


def nearest_between(on: Segment, to: Segment) -> Found:
    """The place of the first segment that is the nearest to the second."""
    place = meeting(on, to)
    if place is not None:
        return place, 0.0
    best, distance = nearest_on(on, to.start)
    other, further = nearest_on(on, to.end)
    if further < distance:
        best, distance = other, further
    for end in on:
        _, further = nearest_on(to, end)
        if further < distance:
            best, distance = end, further
    return best, distance
