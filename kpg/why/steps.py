"""Explanations in the making: a step for each row, put together as a tree when all are there."""

from collections.abc import Callable, Iterator
from typing import Any

from kpg.proof.tree import Kind, Proof
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """A row that has an explanation of its own, shared by all that it is a reason of.

    ``place`` is what the row is of: ``table``, ``view``, or the number of the query that is recursive.
    """

    place: str | int
    name: str
    row: tuple[int, ...]
    below: int = 0
    """Of a recursive row whose round is not known: that of the row that it is a reason of, 0 for none."""
    every: bool = False
    """Of a view's row that is there several times: whether all of them are explained."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node before its children have their explanations; ``proof`` is one that is whole already."""

    kind: Kind
    text: str
    children: "tuple[Child, ...]" = ()
    relation: str | None = None
    row: tuple[Any, ...] | None = None
    columns: tuple[str, ...] = ()
    count: int | None = None
    proof: Proof | None = None

    def needed(self) -> Iterator[Key]:
        """The rows that need explanations."""
        for child in self.children:
            if isinstance(child, Step):
                yield from child.needed()
            else:
                yield child


Child = Key | Step


def put_together(goal: Key, step_of: Callable[[Key], Step]) -> Proof:
    """The tree of a row, each row in it being explained once."""
    steps: dict[Key, Step] = {}
    pending = [goal]
    while pending:
        key = pending.pop()
        if key not in steps:
            steps[key] = step_of(key)
            pending += [child for child in steps[key].needed() if child not in steps]
    made: dict[Key, Proof] = {}
    open_: dict[Key, None] = {}
    pending = [goal]
    while pending:
        key = pending[-1]
        open_[key] = None
        waiting = [one for one in steps[key].needed() if one not in made and one not in open_]
        if waiting:
            pending.append(waiting[0])
        else:
            pending.pop()
            open_.pop(key)
            made[key] = _node(steps[key], made)
    return made[goal]


def _node(step: Step, made: dict[Key, Proof]) -> Proof:
    if step.proof is not None:
        return step.proof
    children = tuple(
        _node(child, made) if isinstance(child, Step) else made[child]
        for child in step.children
        if isinstance(child, Step) or child in made
    )
    return Proof(
        step.kind,
        step.text,
        step.relation,
        step.row,
        children=children,
        count=step.count,
        columns=step.columns,
    )
