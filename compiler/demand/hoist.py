"""Recursion brought out of the query around it, so that what is asked of it stands in one body."""

from collections.abc import Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.lets import renamed
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, free_locals, transform_up, with_children

A_STOP = 10_000
"""A number of rounds that no query means: an error after so many only stops what does not end."""
Frame = algebra.Let | algebra.LetRec


def hoisted(rel: Rel) -> Rel:
    """The relation with each LetRec, and the lets around it, moved above operators and out of lets' values.

    ``Filter [#0 = 1] (LetRec [r] ... r)`` becomes ``LetRec [r] ... (Filter [#0 = 1] r)``. One that depends
    on the recursion around it stays there. Relations of a recursion that no other reads become lets.
    """
    return transform_up(renamed(rel), _lifted)


def _lifted(node: Rel) -> Rel:
    if isinstance(node, algebra.LetRec):
        return _freed(_opened(node))
    if isinstance(node, algebra.Let):
        frames, inner = _frames(node.value)
        return _within(frames, replace(node, value=inner))
    parts = [_frames(child) for child in children(node)]
    if not any(frames for frames, _ in parts):
        return node
    bare = with_children(node, tuple(inner for _, inner in parts))
    return _within([frame for frames, _ in parts for frame in frames], bare)


def _frames(rel: Rel) -> tuple[list[Frame], Rel]:
    """The lets at the top, as far as there is recursion among them, and what is within them."""
    frames: list[Frame] = []
    inner = rel
    while isinstance(inner, algebra.Let | algebra.LetRec):
        frames.append(inner)
        inner = inner.body
    while frames and isinstance(frames[-1], algebra.Let):
        inner = frames.pop()
    return frames, inner


def counts_rounds(rec: algebra.LetRec) -> bool:
    """Whether the result of a recursion depends on how many rounds it takes."""
    return rec.limit is not None and (not rec.error_at_limit or rec.limit < A_STOP)


def _opened(rec: algebra.LetRec) -> algebra.LetRec:
    """The recursion with what only reads its relations as lets in its body."""
    while not counts_rounds(rec):
        read = frozenset[str]().union(*map(free_locals, rec.values))
        last = next((id_ for id_ in reversed(rec.ids) if id_ not in read), None)
        if last is None or len(rec.ids) == 1:
            return rec
        place = rec.ids.index(last)
        kept = [other for other in range(len(rec.ids)) if other != place]
        rec = replace(
            rec,
            ids=tuple(rec.ids[other] for other in kept),
            values=tuple(rec.values[other] for other in kept),
            types=tuple(rec.types[other] for other in kept),
            body=algebra.Let(last, rec.values[place], rec.body),
        )
    return rec


def _freed(rec: algebra.LetRec) -> Rel:
    """The recursion within what its definitions bind that does not depend on it."""
    parts = [_frames(value) for value in rec.values]
    frames = [frame for own, _ in parts for frame in own]
    if not frames or any(_depends(frame, rec.ids) for frame in frames):
        return rec
    return _within(frames, replace(rec, values=tuple(inner for _, inner in parts)))


def _depends(frame: Frame, ids: Sequence[str]) -> bool:
    values = frame.values if isinstance(frame, algebra.LetRec) else (frame.value,)
    return any(not free_locals(value).isdisjoint(ids) for value in values)


def _within(frames: Sequence[Frame], body: Rel) -> Rel:
    for frame in reversed(frames):
        body = replace(frame, body=body)
    return body
