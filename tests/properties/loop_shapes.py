"""Hand-built plans with loops that exercise a shape of loop rather than compute something of use."""

from kpg.runtime.plan import Plan
from kpg.runtime.scalar import Call, Scalar
from kpg.runtime.types import BIGINT
from tests.properties.plans import Builder, add, col, compare, number


def hops(limit: int) -> Plan:
    """The nodes exactly ``limit`` edges from a root: ``iterate`` from the roots, which the body forgets."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    here = body.variable(1, body.enter(roots))
    (left,) = build.loop(body, body.distinct(body.join(here, body.enter(edges), [(0, 0)], (2,))), limit=limit)
    return build.plan(left)


def grown() -> Plan:
    """Reach by ``iterate``: V0 = roots, V(r + 1) = V(r) and its successors."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    here = body.variable(1, body.enter(roots))
    step = body.join(here, body.enter(edges), [(0, 0)], (2,))
    (left,) = build.loop(body, body.distinct(body.concat(here, step)))
    return build.plan(left)


def unchanged() -> Plan:
    """A variable that is its own result: its ``initial``, with its multiplicities."""
    build = Builder()
    body = build.body()
    (left,) = build.loop(body, body.variable(1, body.enter(build.table("root"))))
    return build.plan(left)


def alternating(limit: int) -> Plan:
    """V(r + 1) = roots - V(r), and what distinct, threshold and count make of V - roots over 2."""
    build = Builder()
    body = build.body()
    roots = body.enter(build.table("root"))
    here = body.variable(1)
    result = body.concat(roots, body.negate(here))
    signed = body.concat(here, body.negate(body.filter(roots, compare("gt", col(0), number(2)))))
    readings = (body.distinct(signed), body.threshold(signed), body.reduce(signed, 1, ("count", None)))
    left = build.loop(body, result, *readings, limit=limit)
    outs = [build.linear(ref, (number(tag), 0)) for tag, ref in enumerate(left[:3])]
    outs.append(build.linear(left[3], (add(number(100), col(1)), 0)))
    return build.plan(build.concat(*outs))


def counted() -> Plan:
    """Two results beside the variable: how many are reached (always one row), and two of them."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    reached = body.variable(1)
    step = body.join(reached, body.enter(edges), [(0, 0)], (2,))
    result = body.distinct(body.concat(body.enter(roots), step))
    number_of = body.reduce(reached, 0, ("count", None), ("sum", 0))
    falling = body.linear(reached, (negative(0), 0))
    _, size, largest = build.loop(body, result, number_of, body.top(falling, 0, 2, 1))
    return build.plan(build.concat(size, largest))


def negative(column: int) -> Scalar:
    return Call("neg", (col(column),), BIGINT)


def three_deep() -> Plan:
    """Reach in three nested loops: the innermost follows edges of weight 0, the next 1, the outermost all."""
    build = Builder()
    every, roots = build.distinct(build.table("edge")), build.roots()
    first = build.body()
    outermost = first.variable(1)
    edges = first.enter(every)
    start = first.concat(first.enter(roots), first.join(outermost, edges, [(0, 0)], (2,)))
    second = first.body()
    middle = second.variable(1)
    light = second.filter(second.enter(edges), compare("eq", col(2), number(1)))
    entered = second.concat(second.enter(start), second.join(middle, light, [(0, 0)], (2,)))
    third = second.body()
    innermost = third.variable(1)
    free = third.filter(third.enter(second.enter(edges)), compare("eq", col(2), number(0)))
    along = third.join(innermost, free, [(0, 0)], (2,))
    (inner,) = second.loop(third, third.distinct(third.concat(third.enter(entered), along)))
    (inner,) = first.loop(second, second.distinct(second.concat(inner, entered)))
    (left,) = build.loop(first, first.distinct(first.concat(inner, start)))
    return build.plan(left)


def refined(limit: int) -> Plan:
    """A loop that starts from the variable of the loop around it: reach, ``limit`` hops at a time."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    outer = build.body()
    reached = outer.variable(1)
    inner = outer.body()
    here = inner.variable(1, inner.enter(reached))
    step = inner.join(here, inner.enter(outer.enter(edges)), [(0, 0)], (2,))
    (hop,) = outer.loop(inner, inner.distinct(inner.concat(here, step)), limit=limit)
    (left,) = build.loop(outer, outer.distinct(outer.concat(hop, outer.enter(roots))))
    return build.plan(left)


def mapped_on_the_way_in() -> Plan:
    """What enters the inner loop in any round of the outer one goes through a stateless operator first."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    outer = build.body()
    reached = outer.variable(1)
    inner = outer.body()
    here = inner.variable(1)
    start = inner.linear(inner.enter(reached), (add(col(0), number(0)),))
    step = inner.join(here, inner.enter(outer.enter(edges)), [(0, 0)], (2,))
    (hop,) = outer.loop(inner, inner.distinct(inner.concat(start, step)), limit=2)
    (left,) = build.loop(outer, outer.distinct(outer.concat(hop, outer.enter(roots))))
    return build.plan(left)


def cancelling() -> Plan:
    """Reach with updates that cancel going round with it: it stops only if variables consolidate (T43)."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    reached, noise = body.variable(1), body.variable(1)
    step = body.join(reached, body.enter(edges), [(0, 0)], (2,))
    result = body.distinct(body.concat(body.enter(roots), step))
    silence = body.concat(reached, noise, body.negate(reached), body.negate(noise))
    left, _ = build.loop(body, result, silence)
    return build.plan(left)


def entered() -> Plan:
    """A result that does not depend on any variable, and one that is not even carried."""
    build = Builder()
    body = build.body()
    roots, edges = body.enter(build.table("root")), body.enter(build.edges())
    last = body.variable(1)
    _, one, other = build.loop(body, roots, body.linear(edges, (1,)), last)
    return build.plan(build.concat(one, other))


def numbers() -> Plan:
    """0 .. 5, out of a constant, and the roots among them."""
    build = Builder()
    zero, roots = build.constant((0,)), build.roots()
    body = build.body()
    found = body.variable(1)
    following = body.linear(found, (add(col(0), number(1)),), compare("lt", col(0), number(5)))
    (left,) = build.loop(body, body.distinct(body.concat(body.enter(zero), following)))
    return build.plan(build.concat(left, build.join(left, roots, [(0, 0)], (0,))))


def nearest_of_entered() -> Plan:
    """Top-k and counts, in the body, of what only entered; their arrangements are outside."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    reached, step = body.variable(1), body.enter(edges)
    nearest = body.top(step, 1)
    degree = body.linear(body.reduce(step, 1, ("count", None)), (0,), compare("ge", col(1), number(2)))
    along = body.join(reached, nearest, [(0, 0)], (2,))
    wide = body.semijoin(body.join(reached, step, [(0, 0)], (1, 2)), degree, 0)
    (left,) = build.loop(body, body.distinct(body.concat(body.enter(roots), along, body.linear(wide, (1,)))))
    return build.plan(left)
