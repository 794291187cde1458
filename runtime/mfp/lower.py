"""Scalars to machine operations: functions replaced by their implementations, constants folded.

Operations form a graph in which equal subexpressions are one node, numbered so that operands come
before their users. What the machine cannot do (a Python function of two columns) becomes a
:class:`Detached` column that is computed before the machine runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np

from kpg.runtime.functions.registry import (
    Columns,
    Composition,
    Matcher,
    Membership,
    Memoized,
    Opcode,
    Vector,
    implementation,
)
from kpg.runtime.mfp.fuse import fused
from kpg.runtime.mfp.memo import Context, Memo, attempt, memo_of, value_of, words_of
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import ERROR, NULL
from kpg.runtime.values.text import limits

Words = np.ndarray[Any, np.dtype[np.int64]]

BOUNDED = frozenset(
    ["add", "sub", "mul", "div", "mod", "floor_div", "add_months", "scale_down", "range", "from_double"]
)
"""Operations whose result is checked against the limits of its type."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: its operands (numbers of nodes), immediate operands, and limits of the result."""

    name: str
    operands: tuple[int, ...] = ()
    immediates: tuple[int, ...] = ()
    limits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Detached:
    """A call computed outside the machine from the nodes ``args``."""

    call: Call
    implementation: Memoized | Columns | Vector
    args: tuple[int, ...]


class Sources:
    """The arrays that the machine reads by address: row stores of tables, and memos."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.entries: list[Any] = []
        self.memos = 0
        self._numbers: dict[object, int] = {}
        self._arrays: list[Words | None] = []
        self.addresses: Words = np.zeros((0, 2), dtype=np.int64)

    def table(self, name: str) -> int:
        """The number of a table."""
        return self._number(name, lambda: self.context.store(name))

    def memo(self, call: Call, how: Memoized | Matcher) -> int:
        """The number of the memo of a call."""
        memo = memo_of(call, how, self.context)
        before = len(self.entries)
        number = self._number(memo, lambda: memo)
        self.memos += len(self.entries) - before
        return number

    def _number(self, key: object, entry: Callable[[], Any]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.entries)
            self.entries.append(entry())
            self._arrays.append(None)
            self.addresses = np.zeros((len(self.entries), 2), dtype=np.int64)
        return self._numbers[key]

    def refresh(self) -> Words:
        """Addresses and lengths, brought up to date with arrays that were replaced."""
        arrays, addresses = self._arrays, self.addresses
        for number, entry in enumerate(self.entries):
            array = entry.words if isinstance(entry, Memo) else entry.directory
            if array is not arrays[number] or addresses[number, 0] == 0:
                arrays[number] = array
                addresses[number] = array.ctypes.data, array.shape[0]
        return addresses

    def fill(self, missing: Words) -> None:
        """Computes what memos lack: ``missing int64[2, k]`` are pairs (source, code)."""
        for number, entry in enumerate(self.entries):
            if isinstance(entry, Memo):
                codes = np.unique(missing[1, missing[0] == number])
                if len(codes):
                    entry.fill(codes)


class Lowering:
    """A growing graph of operations. ``fold`` evaluates one node without inputs."""

    def __init__(self, sources: Sources, width: int, fold: "Callable[[Lowering, int], int]") -> None:
        self.sources = sources
        self.width = width
        self.nodes: list[Node] = []
        self.detached: list[Detached] = []
        self._fold = fold
        self._numbers: dict[Node, int] = {}
        self._lowered: dict[Scalar, int] = {}
        self._columns: dict[tuple[Call, object], int] = {}

    def lower(self, scalar: Scalar) -> int:
        """The node of a scalar."""
        number = self._lowered.get(scalar)
        if number is None:
            number = self._lower(scalar)
            self._lowered[scalar] = number
        return number

    def _lower(self, scalar: Scalar) -> int:
        match scalar:
            case Column(index=index):
                return self.add(Node("load", (), (index,)))
            case Literal():
                return self._constant(self._literal_word(scalar))
            case If(condition=condition, then=then, otherwise=otherwise):
                operands = (self.lower(condition), self.lower(then), self.lower(otherwise))
                return self.add(Node("select", operands))
            case Fetch(table=table, column=column, rowid=rowid):
                source = self.sources.table(table)
                return self.add(Node("fetch", (self.lower(rowid),), (source, column)))
            case Call():
                return self._call(Call(scalar.function, tuple(map(self._known, scalar.args)), scalar.type))
            case _:
                assert_never(scalar)

    def add(self, node: Node) -> int:
        """The number of a node, folded if all its operands are constants."""
        number = self._numbers.get(node)
        if number is None:
            number = len(self.nodes)
            self.nodes.append(node)
            self._numbers[node] = number
            if node.operands and node.name != "fetch" and all(map(self.is_constant, node.operands)):
                number = self._constant(self._fold(self, number))
                self._numbers[node] = number
        return number

    def is_constant(self, number: int) -> bool:
        return self.nodes[number].name == "const"

    def _constant(self, word: int) -> int:
        return self.add(Node("const", (), (word,)))

    def _literal_word(self, literal: Literal) -> int:
        if literal.value is None:
            return NULL
        if isinstance(literal.value, str):
            return self.sources.context.dictionary.code(literal.value)
        return literal.value

    def _known(self, scalar: Scalar) -> Scalar:
        """The scalar as a literal, if its value is known by now."""
        if isinstance(scalar, Literal | Column | Fetch):
            return scalar
        node = self.nodes[self.lower(scalar)]
        if node.name != "const" or node.immediates[0] == ERROR:
            return scalar
        (word,) = node.immediates
        if scalar.type.is_interned and word != NULL:
            return Literal(self.sources.context.dictionary.get(word), scalar.type)
        return Literal(None if word == NULL else word, scalar.type)

    def _call(self, call: Call) -> int:
        how = implementation(call)
        match how:
            case Composition(build=build):
                return self.lower(build(call))
            case Opcode():
                return self._instruction(call, how)
            case Membership():
                return self._membership(call)
            case Memoized() | Matcher():
                return self._python(call, how)
            case Vector() | Columns():
                return self._detach(call, how)
            case _:
                assert_never(how)

    def _instruction(self, call: Call, how: Opcode) -> int:
        operands = tuple(map(self.lower, call.args[: how.operands]))
        immediates = () if how.immediate is None else (how.immediate(call),)
        bounds = limits(call.type) if how.name in BOUNDED else None
        if not how.fold:
            return self.add(Node(how.name, operands, immediates, bounds))
        return self._balanced(how.name, operands)

    def _balanced(self, name: str, operands: Sequence[int]) -> int:
        """An operation of two operands over many, as a tree of logarithmic depth."""
        if len(operands) == 1:
            return operands[0]
        middle = len(operands) // 2
        halves = self._balanced(name, operands[:middle]), self._balanced(name, operands[middle:])
        return self.add(Node(name, halves))

    def _membership(self, call: Call) -> int:
        first, *items = call.args
        words = {self._literal_word(item) for item in items if isinstance(item, Literal)}
        found = self.add(Node("in_set", (self.lower(first),), tuple(sorted(words - {NULL}))))
        return self.add(Node("or", (found, self._constant(NULL)))) if NULL in words else found

    def _python(self, call: Call, how: Memoized | Matcher) -> int:
        rest = [arg for arg in call.args if not isinstance(arg, Literal)]
        if isinstance(how, Memoized) and how.takes_nulls:
            return self._detach(call, how) if rest else self._constant(self._value(call, how))
        if any(isinstance(arg, Literal) and arg.value is None for arg in call.args):
            return self._constant(NULL)
        if not rest and isinstance(how, Memoized):
            return self._constant(self._value(call, how))
        if isinstance(how, Matcher) and isinstance(call.args[0], Literal):
            text = self.lower(call.args[0])
            return self.add(Node("memo", (text,), (self.sources.memo(call, how),)))
        if isinstance(how, Memoized) and (node := self._fused(call, how)) is not None:
            return node
        if len(rest) == 1 and rest[0].type.is_interned:
            source = self.sources.memo(call, how)
            return self.add(Node("memo", (self.lower(rest[0]),), (source,)))
        assert isinstance(how, Memoized)
        return self._detach(call, how)

    def _fused(self, call: Call, how: Memoized) -> int | None:
        """The node of a call with all NUMERICs in between made within it; None if there are none."""
        found = fused(call, how, self.sources.context.dictionary)
        return None if found is None else self._detach(*found)

    def _value(self, call: Call, how: Memoized) -> int:
        dictionary = self.sources.context.dictionary
        words = [self._literal_word(arg) for arg in call.args if isinstance(arg, Literal)]
        values = [value_of(word, arg.type, dictionary) for word, arg in zip(words, call.args, strict=True)]
        result = attempt(how.build(call), *values)
        return int(words_of([result], call.type, dictionary)[0])

    def keep(self, roots: Sequence[int]) -> None:
        """Forget the columns computed outside the machine that none of these nodes needs."""
        needed: set[int] = set()
        stack = list(roots)
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                node = self.nodes[number]
                stack += node.operands
                if node.name == "load" and node.immediates[0] >= self.width:
                    stack += self.detached[node.immediates[0] - self.width].args
        loaded = {self.nodes[number].immediates[0] for number in needed if self.nodes[number].name == "load"}
        kept = [column for column in range(len(self.detached)) if self.width + column in loaded]
        places = {self.width + column: self.width + place for place, column in enumerate(kept)}
        for number, node in enumerate(self.nodes):
            if node.name == "load" and node.immediates[0] in places:
                self.nodes[number] = Node("load", (), (places[node.immediates[0]],))
        self.detached = [self.detached[column] for column in kept]

    def _detach(self, call: Call, how: Memoized | Columns | Vector) -> int:
        column = self._columns.get((call, how))
        if column is None:
            args = tuple(map(self.lower, call.args))
            if isinstance(how, Vector) and all(map(self.is_constant, args)):
                words = [np.array(self.nodes[arg].immediates, dtype=np.int64) for arg in args]
                return self._constant(int(how.build(call)(*words)[0]))
            column = self.width + len(self.detached)
            self._columns[call, how] = column
            self.detached.append(Detached(call, how, args))
        return self.add(Node("load", (), (column,)))
