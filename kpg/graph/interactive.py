"""Queries of a graph whose arguments are collections: insert a question, read its answer, and remove it.

The four of the shared arrangements paper's section 6.2. Edges arranged by ``src`` (and, for paths, by
``dst``) and states arranged by ``node`` serve all of them, and all questions: one more question costs its
answer.
"""

from collections.abc import Callable

from kpg.collections import Collection


def look_up(state: Collection, questions: Collection) -> Collection:
    """(node, ...): the rows of ``state`` whose ``node`` is asked for, as often as it is."""
    return questions.project("node").join(state, "node")


def one_hop(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """(asked, node, ...): for each ``node`` asked for the states of those that its edges lead to.

    As often as edges and questions occur.
    """
    return _states(_hop(edges, _asked(questions)), state)


def two_hops(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """(asked, node, ...): as :func:`one_hop`, two edges away, once for each way there."""
    return _states(_hop(edges, _hop(edges, _asked(questions))), state)


def four_hop_path(edges: Collection, questions: Collection) -> Collection:
    """(src, dst, hops): for each pair asked for the least number of edges on a path, if it is 4 or less.

    Two hops forward from ``src`` meet two backward from ``dst``. What occurs twice counts once.
    """
    pairs = questions.project("src", "dst").distinct()
    start = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.src, "hops": 0})
    end = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.dst, "hops": 0})
    forward = _within_two(start, lambda near: _step(near, edges, "src", "dst"))
    backward = _within_two(end, lambda near: _step(near, edges, "dst", "src"))
    met = forward.join(
        backward,
        ("src", "dst", "node"),
        lambda f, b: {"src": f.src, "dst": f.dst, "hops": f.hops + b.hops},
    )
    return met.min("hops", key=("src", "dst"))


def _asked(questions: Collection) -> Collection:
    return questions.map(lambda q: {"asked": q.node, "node": q.node})


def _hop(edges: Collection, found: Collection) -> Collection:
    return found.join(edges, {"node": "src"}, lambda f, e: {"asked": f.asked, "node": e.dst})


def _states(found: Collection, state: Collection) -> Collection:
    return found.join(state, "node")


def _step(near: Collection, edges: Collection, here: str, there: str) -> Collection:
    return near.join(
        edges,
        {"node": here},
        lambda n, e: {"src": n.src, "dst": n.dst, "node": e[there], "hops": n.hops + 1},
    )


def _within_two(near: Collection, step: Callable[[Collection], Collection]) -> Collection:
    """What is at most two steps away."""
    one = step(near)
    return near.concat(one, step(one))
