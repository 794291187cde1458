"""Hand-built plans with loops over the tables edge(x, y, w) and root(x).

All have a fixed point on every graph, or a limit. Edges are a set unless a plan says otherwise.
"""

from collections.abc import Callable

from kpg.runtime.plan import Plan
from tests.properties import loop_shapes as shapes
from tests.properties.plans import Builder, add, col, compare, number

Build = Callable[[], Plan]


def closure(
    build: Builder,
    edges: int,
    roots: int,
    *,
    copy: bool = False,
    limit: int | None = None,
    error_at_limit: bool = False,
) -> int:
    """What can be reached from roots, the roots included."""
    body = build.body(copy=copy)
    reached = body.variable(1)
    step = body.join(reached, body.enter(edges), [(0, 0)], (2,))
    result = body.distinct(body.concat(body.enter(roots), step))
    (left,) = build.loop(body, result, limit=limit, error_at_limit=error_at_limit)
    return left


def reach(*, copy: bool = False, limit: int | None = None, error_at_limit: bool = False) -> Plan:
    build = Builder()
    edges, roots = build.edges(), build.roots()
    return build.plan(closure(build, edges, roots, copy=copy, limit=limit, error_at_limit=error_at_limit))


def reach_by_rowid() -> Plan:
    """As ``reach``, by way of the rowids of the edges gone along; the loop fetches y through them."""
    build = Builder()
    rowids = build.source("edge")
    thin = build.linear(rowids, (build.fetch("edge", 0, 0), build.rowid(0)))
    body = build.body()
    reached, used = body.variable(1), body.variable(1)
    gone = body.distinct(body.join(reached, body.enter(thin), [(0, 0)], (build.rowid(2),)))
    ends = body.linear(used, (build.fetch("edge", 1, 0),))
    result = body.distinct(body.concat(body.enter(build.table("root")), ends))
    left, _ = build.loop(body, result, gone)
    return build.plan(left)


def transitive_closure(kind: str) -> Plan:
    """tc(x, y), by a ``"left"`` linear, ``"right"`` linear or ``"double"`` (non-linear) rule."""
    build = Builder()
    edges = build.edges()
    body = build.body()
    closed, step = body.variable(2), body.enter(edges)
    match kind:
        case "left":
            longer = body.join(closed, step, [(1, 0)], (0, 3))
        case "right":
            longer = body.join(step, closed, [(1, 0)], (0, 3))
        case _:
            longer = body.join(closed, closed, [(1, 0)], (0, 3))
    (left,) = build.loop(body, body.distinct(body.concat(step, longer)))
    return build.plan(left)


def same_generation() -> Plan:
    """sg(x, y) :- edge(p, x), edge(p, y), x != y. sg(x, y) :- edge(a, x), sg(a, b), edge(b, y)."""
    build = Builder()
    edges = build.edges()
    siblings = build.join(edges, edges, [(0, 0)], (1, 3), compare("ne", col(1), col(3)))
    body = build.body()
    same, step = body.variable(2), body.enter(edges)
    half = body.join(step, same, [(0, 0)], (1, 3))
    cousins = body.join(half, step, [(1, 0)], (0, 3))
    (left,) = build.loop(body, body.distinct(body.concat(body.enter(siblings), cousins)))
    return build.plan(left)


def same_generation_delta() -> Plan:
    """As ``same_generation``, the recursive rule being one delta join of three relations."""
    build = Builder()
    edges = build.edges()
    siblings = build.join(edges, edges, [(0, 0)], (1, 3), compare("ne", col(1), col(3)))
    body = build.body()
    same, step = body.variable(2), body.enter(edges)
    cousins = body.chain(step, same, step)
    (left,) = build.loop(body, body.distinct(body.concat(body.enter(siblings), cousins)))
    return build.plan(left)


def distances(*, weighted: bool) -> Plan:
    """The least number of edges, or the least sum of weights, from the roots to each node."""
    build = Builder()
    edges, roots = build.table("edge"), build.roots()
    body = build.body()
    found = body.variable(2)
    length = col(4) if weighted else number(1)
    further = body.join(found, body.enter(edges), [(0, 0)], (3, add(col(1), length)))
    start = body.linear(body.enter(roots), (0, number(0)))
    (left,) = build.loop(body, body.top(body.concat(start, further), 1))
    return build.plan(left)


def components() -> Plan:
    """Each node's least node of its weakly connected component."""
    build = Builder()
    edges = build.edges()
    both = build.concat(edges, build.linear(edges, (1, 0)))
    nodes = build.linear(build.ends(edges), (0, 0))
    return build.plan(labels(build, both, nodes))


def labels(build: Builder, edges: int, nodes: int) -> int:
    """Each node's least label of those that reach it along edges; ``nodes`` are (node, label)."""
    body = build.body()
    label = body.variable(2)
    passed = body.join(label, body.enter(edges), [(0, 0)], (3, 1))
    (left,) = build.loop(body, body.top(body.concat(body.enter(nodes), passed), 1))
    return left


def strongly_connected() -> Plan:
    """Edges within a strongly connected component: the outer loop trims edges between different labels."""
    build = Builder()
    edges = build.edges()
    outer = build.body()
    every = outer.enter(edges)
    kept = outer.variable(2, every)
    forward = trimmed(outer, kept, every)
    backward = trimmed(outer, outer.linear(forward, (1, 0)), outer.linear(every, (1, 0)))
    (left,) = build.loop(outer, outer.linear(backward, (1, 0)))
    return build.plan(left)


def trimmed(build: Builder, cycle: int, edges: int) -> int:
    """Those edges whose two ends have the same label, labels being passed along ``cycle``."""
    nodes = build.distinct(build.linear(edges, (1, 1)))
    label = labels(build, cycle, nodes)
    first = build.join(edges, label, [(0, 0)], (0, 1, 3))
    return build.join(first, label, [(1, 0), (2, 1)], (0, 1))


def parity() -> Plan:
    """Mutual recursion: (0, x) for paths of even length from a root to x, (1, x) for odd ones."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    body = build.body()
    even, odd, step = body.variable(1), body.variable(1), body.enter(edges)
    evens = body.distinct(body.concat(body.enter(roots), body.join(odd, step, [(0, 0)], (2,))))
    odds = body.distinct(body.join(even, step, [(0, 0)], (2,)))
    left, right = build.loop(body, evens, odds)
    tagged = [build.linear(ref, (number(tag), 0)) for tag, ref in enumerate((left, right))]
    return build.plan(build.concat(*tagged))


def paths() -> Plan:
    """A node as often as there are paths to it from roots, along edges to larger nodes; tables are bags."""
    build = Builder()
    edges = build.filter(build.linear(build.table("edge"), (0, 1)), compare("lt", col(0), col(1)))
    body = build.body()
    path = body.variable(1)
    longer = body.join(path, body.enter(edges), [(0, 0)], (2,))
    (left,) = build.loop(body, body.concat(body.enter(build.table("root")), longer))
    return build.plan(left)


def core(least: int) -> Plan:
    """The k-core of the undirected graph: nodes are taken away while they have fewer neighbours."""
    build = Builder()
    edges = build.filter(build.edges(), compare("ne", col(0), col(1)))
    both = build.distinct(build.concat(edges, build.linear(edges, (1, 0))))
    nodes = build.distinct(build.linear(both, (0,)))
    body = build.body()
    alive = body.variable(1, body.enter(nodes))
    among = body.semijoin(body.semijoin(body.enter(both), alive, 0), alive, 1)
    degree = body.reduce(among, 1, ("count", None))
    (left,) = build.loop(body, body.linear(degree, (0,), compare("ge", col(1), number(least))))
    return build.plan(left)


def control(share: int) -> Plan:
    """x controls y if the shares of y that x, or what x controls, owns add up to more than ``share``."""
    build = Builder()
    owns = build.distinct(build.table("edge"))
    body = build.body()
    controls, shares = body.variable(2), body.enter(owns)
    own = body.linear(shares, (0, 0, 1, 2))
    through = body.join(controls, shares, [(1, 0)], (0, 1, 3, 4))
    counted = body.linear(body.distinct(body.concat(own, through)), (0, 2, 3))
    total = body.reduce(counted, 2, ("sum", 2))
    (left,) = build.loop(body, body.linear(total, (0, 1), compare("gt", col(2), number(share))))
    return build.plan(left)


def winning(limit: int) -> Plan:
    """win(x) :- edge(x, y), not win(y), for ``limit`` rounds: not monotone, without end on odd cycles."""
    build = Builder()
    edges = build.edges()
    body = build.body()
    win, move = body.variable(1), body.enter(edges)
    good = body.antijoin(move, win, 1)
    (left,) = build.loop(body, body.distinct(body.linear(good, (0,))), limit=limit)
    return build.plan(left)


def unreached() -> Plan:
    """Two strata: what the nodes that roots do not reach can reach (T47)."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    reached = closure(build, edges, roots)
    others = build.antijoin(build.ends(edges), reached, 0)
    return build.plan(closure(build, edges, others))


def joined_outside() -> Plan:
    """The edges that reached nodes have: the loop and the join outside read one arrangement of edges."""
    build = Builder()
    edges, roots = build.edges(), build.roots()
    reached = closure(build, edges, roots)
    return build.plan(build.join(reached, edges, [(0, 0)], (1, 2)))


LOOPS: dict[str, Build] = {
    "reach": reach,
    "reach, edges arranged in the body": lambda: reach(copy=True),
    "reach in 2 rounds": lambda: reach(limit=2),
    "reach by rowid": reach_by_rowid,
    "tc left": lambda: transitive_closure("left"),
    "tc right": lambda: transitive_closure("right"),
    "tc double": lambda: transitive_closure("double"),
    "same generation": same_generation,
    "same generation by a delta join": same_generation_delta,
    "distances": lambda: distances(weighted=False),
    "weighted distances": lambda: distances(weighted=True),
    "components": components,
    "strongly connected": strongly_connected,
    "parity": parity,
    "paths": paths,
    "2-core": lambda: core(2),
    "control": lambda: control(2),
    "3 hops": lambda: shapes.hops(3),
    "grown": shapes.grown,
    "unchanged": shapes.unchanged,
    "winning in 4 rounds": lambda: winning(4),
    "alternating 3 times": lambda: shapes.alternating(3),
    "alternating 4 times": lambda: shapes.alternating(4),
    "counted": shapes.counted,
    "unreached": unreached,
    "joined outside": joined_outside,
    "three deep": shapes.three_deep,
    "refined by 2 hops": lambda: shapes.refined(2),
    "mapped on the way in": shapes.mapped_on_the_way_in,
    "cancelling": shapes.cancelling,
    "entered": shapes.entered,
    "numbers": shapes.numbers,
    "nearest of entered": shapes.nearest_of_entered,
}
