"""Loops: scopes in which collections are defined by each other, round by round."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kpg.collections.assembly import variable as variable_term
from kpg.collections.collection import Collection
from kpg.collections.columns import ColumnType, schema_of
from kpg.collections.rows import Rows, aligned, plain
from kpg.collections.term import EnterTerm, LeaveTerm, Level, Term, VariableTerm, enclosing
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError
from kpg.runtime.plan import Ref
from kpg.runtime.types import Type

if TYPE_CHECKING:
    from kpg.collections.dataflow import Dataflow


class Variable(Collection):
    """A recursive collection: ``initial`` (or nothing), and from then on what it is ``set`` to."""

    def __init__(self, flow: "Dataflow", scope: "LoopScope", rows: Rows) -> None:
        super().__init__(flow, rows)
        self._scope = scope
        self._result: Rows | None = None

    @property
    def result(self) -> Collection:
        """What it was set to."""
        if self._result is None:
            raise InterfaceError(f"{self!r} was not set", hint="call set() inside the loop")
        return Collection(self._flow, self._result)

    def set(self, collection: Collection) -> None:
        """Say what it is in the next round; once, and inside its loop."""
        self._scope.check_open("a variable is set")
        if self._result is not None:
            raise InterfaceError(
                f"{self!r} was set before", hint="concat() what it is to be, and set it once"
            )
        result = aligned(collection._rows, self._rows, "the variable")
        for name, may, has in zip(result.names, result.flags, self._rows.flags, strict=True):
            if may and not has:
                raise InterfaceError(
                    f"column {name} of the variable can be None", hint="declare it so: variable(x=int | None)"
                )
        self._scope.check_inside(result.term)
        self._result = result

    @property
    def stream(self) -> Term:
        """The term of its result."""
        rows = self.result._rows
        return rows.stream(rows.values)


class LoopScope:
    """``with flow.scope() as loop:`` a loop. Collections from outside are there in every round.

    What leaves is the sum of the changes of all rounds: the fixed point, or after ``limit`` rounds what
    was reached; with ``error_at_limit`` it is an error if that was not the end.
    """

    def __init__(self, flow: "Dataflow", limit: int | None, error_at_limit: bool) -> None:
        self._flow = flow
        self.parent: Level | None = None
        self.limit = limit
        self.error_at_limit = error_at_limit
        self._variables: list[Variable] = []
        self._terms: list[VariableTerm] = []
        self._left: list[Term] = []
        self._open = False

    def variable(self, initial: Collection | None = None, **types: ColumnType) -> Variable:
        """A recursive collection of the columns of ``initial``, or of the columns named."""
        if initial is None:
            schema = schema_of(types)
            flags = tuple(column.nullable for column in schema.columns)
            return self.declare(None, schema.names, schema.types, flags)
        rows = initial._rows
        if types:
            given = schema_of(types)
            model = Rows(rows.term, (), rows.values, given.names, rows.flags)
            rows = aligned(rows, model, "the variable")
        return self.declare(rows, rows.names, rows.types, rows.flags)

    def declare(
        self, initial: Rows | None, names: Sequence[str], types: Sequence[Type], flags: Sequence[bool]
    ) -> Variable:
        """A variable with all said of it."""
        self.check_open("a variable is made")
        start = None if initial is None else initial.stream(initial.values)
        if start is not None:
            self.check_inside(start)
        term = variable_term(len(self._terms), types, start, self)
        made = Variable(self._flow, self, plain(term, names, flags))
        self._terms.append(term)
        self._variables.append(made)
        return made

    def enter(self, collection: Collection) -> Collection:
        """The collection in this loop. Collections enter by themselves; this says so."""
        rows = collection._rows
        self.check_inside(rows.term)
        if rows.term.scope is self:
            return collection
        stream = rows.stream(rows.values)
        return Collection(
            self._flow, plain(EnterTerm((stream,), stream.types, _never, self), rows.names, rows.flags)
        )

    def leave(self, collection: Collection) -> Collection:
        """The collection outside, as it is when the loop has come to its end."""
        self.check_open("a collection leaves")
        rows = collection._rows
        stream = rows.stream(rows.values)
        self.check_inside(stream)
        if stream.scope is not self:
            return collection
        if stream not in self._left:
            self._left.append(stream)
        term = LeaveTerm((), stream.types, _never, self.parent, loop=self, result=self._left.index(stream))
        return Collection(self._flow, plain(term, rows.names, rows.flags))

    @property
    def variables(self) -> Sequence[VariableTerm]:
        """The recursive collections."""
        return self._terms

    @property
    def left(self) -> Sequence[Term]:
        """What leaves."""
        return self._left

    @property
    def results(self) -> Sequence[Term]:
        """What each variable becomes, then what leaves; InterfaceError while the block is being written."""
        if self._open:
            raise InterfaceError(
                "the loop is still being written", hint="read its results after the with block"
            )
        return [*(variable.stream for variable in self._variables), *self._left]

    @property
    def open(self) -> bool:
        """Whether the block is still being written."""
        return self._open

    def __enter__(self) -> "LoopScope":
        self.parent = self._flow.enter_scope(self)
        self._open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._open = False
        self._flow.leave_scope(self)
        if kind is None:
            for variable in self._variables:
                _ = variable.result  # raises if it was not set

    def check_open(self, what: str) -> None:
        """Raise InterfaceError outside of the block."""
        if not self._open:
            raise InterfaceError(f"{what} inside the loop's with block", hint="move it there")

    def check_inside(self, term: Term) -> None:
        """Raise InterfaceError if the term is of a loop that is not this one nor around it."""
        if term.scope is not None and not any(term.scope is level for level in enclosing(self)):
            raise InterfaceError("the collection belongs to another loop", hint="leave() that loop first")


def _never(refs: Sequence[Ref]) -> plan.AnyNode:
    raise AssertionError("assembly makes these nodes itself")


def iterated(
    flow: "Dataflow", start: Collection, body: Callable[[Collection], Collection], limit: int | None
) -> Collection:
    """``start``, ``body(start)``, ``body(body(start))`` and so on, to the end."""
    rows = start._rows
    flags = rows.flags
    while True:
        with flow.scope(limit=limit) as loop:
            variable = loop.declare(rows, rows.names, rows.types, flags)
            result = aligned(body(variable)._rows, rows, "the body of iterate")
            wider = tuple(a or b for a, b in zip(flags, result.flags, strict=True))
            whole = Collection(flow, result)
            # A column that can be None from the first round on is known to be so only now: begin again.
            variable.set(variable if wider != flags else whole)
            if wider == flags:
                return loop.leave(whole)
        flags = wider
