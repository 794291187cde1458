"""Compilation of scalars to the bytecode of the expression machine.

:class:`Lowering` replaces functions by their implementations and folds constants. It builds a graph
with one node for equal subexpressions, operands numbered before their users. A call that the
machine cannot run (a Python function of two columns) becomes a :class:`PrecomputedCall`, a column
computed before the machine runs. :func:`assemble` orders predicates, allocates registers and
encodes instructions.

A :class:`Segment` is a set of predicates and outputs that run together. It flags errors in rows
that pass; its caller decides whether to raise them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import reduce
from typing import Any, assert_never

import numpy as np

from kpg.runtime.functions.registry import (
    ColumnFunction,
    Composition,
    Matcher,
    Membership,
    MemoizedFunction,
    Opcode,
    VectorFunction,
    implementation,
)
from kpg.runtime.kernels import opcodes, vm
from kpg.runtime.mfp.python_calls import (
    FEW_ROWS,
    Context,
    Memo,
    SmallCall,
    apply_columns,
    apply_memoized,
    call_or_error,
    fuse_calls,
    memo_of,
    value_of,
    words_of,
)
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns
from kpg.runtime.types import ERROR, MAX_WORD, MIN_WORD, NULL
from kpg.runtime.values.words import limits

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
class PrecomputedCall:
    """Call that is computed outside the machine from the nodes ``args``."""

    call: Call
    implementation: MemoizedFunction | ColumnFunction | VectorFunction
    args: tuple[int, ...]


class Sources:
    """Arrays that the machine reads by address: row stores of tables, and memos."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.entries: list[Any] = []
        self.memos = 0
        self._numbers: dict[object, int] = {}
        self._arrays: list[Words | None] = []
        self.addresses: Words = np.zeros((0, 2), dtype=np.int64)

    def table(self, name: str) -> int:
        """Return the number of a table."""
        return self._number(name, lambda: self.context.store(name))

    def memo(self, call: Call, how: MemoizedFunction | Matcher) -> int:
        """Return the number of a call's memo."""
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
        """Update the addresses and lengths of replaced arrays, and return all."""
        arrays, addresses = self._arrays, self.addresses
        for number, entry in enumerate(self.entries):
            array = entry.words if isinstance(entry, Memo) else entry.directory
            if array is not arrays[number] or addresses[number, 0] == 0:
                arrays[number] = array
                addresses[number] = array.ctypes.data, array.shape[0]
        return addresses

    def fill_memos(self, missing: Words) -> None:
        """Compute missing memo entries: ``missing int64[2, k]`` are pairs (source, code)."""
        for number, entry in enumerate(self.entries):
            if isinstance(entry, Memo):
                codes = np.unique(missing[1, missing[0] == number])
                if len(codes):
                    entry.fill(codes)


class Lowering:
    """Graph of operations under construction; ``fold`` evaluates a node without inputs."""

    def __init__(self, sources: Sources, width: int, fold: "Callable[[Lowering, int], int]") -> None:
        self.sources = sources
        self.width = width
        self.nodes: list[Node] = []
        self.precomputed: list[PrecomputedCall] = []
        self._fold = fold
        self._numbers: dict[Node, int] = {}
        self._node_of_scalar: dict[Scalar, int] = {}
        self._columns: dict[tuple[Call, object], int] = {}

    def lower(self, scalar: Scalar) -> int:
        """Return the node of a scalar."""
        number = self._node_of_scalar.get(scalar)
        if number is None:
            number = self._lower(scalar)
            self._node_of_scalar[scalar] = number
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
                return self._call(
                    Call(scalar.function, tuple(map(self._fold_to_literal, scalar.args)), scalar.type)
                )
            case _:
                assert_never(scalar)

    def add(self, node: Node) -> int:
        """Return the number of a node, folded if all its operands are constants."""
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

    def _fold_to_literal(self, scalar: Scalar) -> Scalar:
        """Return the scalar as a literal if its value is constant."""
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
            case MemoizedFunction() | Matcher():
                return self._python(call, how)
            case VectorFunction() | ColumnFunction():
                return self._precompute(call, how)
            case _:
                assert_never(how)

    def _instruction(self, call: Call, how: Opcode) -> int:
        operands = tuple(map(self.lower, call.args[: how.operands]))
        immediates = () if how.immediate is None else (how.immediate(call),)
        bounds = limits(call.type) if how.name in BOUNDED else None
        if how.in_order:
            return reduce(lambda left, right: self.add(Node(how.name, (left, right), (), bounds)), operands)
        if not how.fold:
            return self.add(Node(how.name, operands, immediates, bounds))
        return self._build_tree(how.name, operands)

    def _build_tree(self, name: str, operands: Sequence[int]) -> int:
        """Return a binary operation over many operands as a tree of logarithmic depth."""
        if len(operands) == 1:
            return operands[0]
        middle = len(operands) // 2
        halves = self._build_tree(name, operands[:middle]), self._build_tree(name, operands[middle:])
        return self.add(Node(name, halves))

    def _membership(self, call: Call) -> int:
        first, *items = call.args
        words = {self._literal_word(item) for item in items if isinstance(item, Literal)}
        member = self.add(Node("in_set", (self.lower(first),), tuple(sorted(words - {NULL}))))
        return self.add(Node("or", (member, self._constant(NULL)))) if NULL in words else member

    def _python(self, call: Call, how: MemoizedFunction | Matcher) -> int:
        rest = [arg for arg in call.args if not isinstance(arg, Literal)]
        if isinstance(how, MemoizedFunction) and how.takes_nulls:
            return self._precompute(call, how) if rest else self._constant(self._value(call, how))
        if any(isinstance(arg, Literal) and arg.value is None for arg in call.args):
            return self._constant(NULL)
        if not rest and isinstance(how, MemoizedFunction):
            return self._constant(self._value(call, how))
        if isinstance(how, Matcher) and isinstance(call.args[0], Literal):
            text = self.lower(call.args[0])
            return self.add(Node("memo", (text,), (self.sources.memo(call, how),)))
        if isinstance(how, MemoizedFunction) and (node := self._fuse(call, how)) is not None:
            return node
        if len(rest) == 1 and rest[0].type.is_interned:
            source = self.sources.memo(call, how)
            return self.add(Node("memo", (self.lower(rest[0]),), (source,)))
        assert isinstance(how, MemoizedFunction)
        return self._precompute(call, how)

    def _fuse(self, call: Call, how: MemoizedFunction) -> int | None:
        """Return the node of a call fused with the NUMERIC calls in its arguments; None if there are none."""
        fused_call = fuse_calls(call, how, self.sources.context.dictionary)
        return None if fused_call is None else self._precompute(*fused_call)

    def _value(self, call: Call, how: MemoizedFunction) -> int:
        dictionary = self.sources.context.dictionary
        words = [self._literal_word(arg) for arg in call.args if isinstance(arg, Literal)]
        values = [value_of(word, arg.type, dictionary) for word, arg in zip(words, call.args, strict=True)]
        result = call_or_error(how.build(call), *values)
        return int(words_of([result], call.type, dictionary)[0])

    def prune_precomputed(self, roots: Sequence[int]) -> None:
        """Drop precomputed columns that none of these nodes needs."""
        needed: set[int] = set()
        stack = list(roots)
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                node = self.nodes[number]
                stack += node.operands
                if node.name == "load" and node.immediates[0] >= self.width:
                    stack += self.precomputed[node.immediates[0] - self.width].args
        loaded_columns = {
            self.nodes[number].immediates[0] for number in needed if self.nodes[number].name == "load"
        }
        used = [column for column in range(len(self.precomputed)) if self.width + column in loaded_columns]
        places = {self.width + column: self.width + place for place, column in enumerate(used)}
        for number, node in enumerate(self.nodes):
            if node.name == "load" and node.immediates[0] in places:
                self.nodes[number] = Node("load", (), (places[node.immediates[0]],))
        self.precomputed = [self.precomputed[column] for column in used]

    def _precompute(self, call: Call, how: MemoizedFunction | ColumnFunction | VectorFunction) -> int:
        column = self._columns.get((call, how))
        if column is None:
            args = tuple(map(self.lower, call.args))
            if isinstance(how, VectorFunction) and all(map(self.is_constant, args)):
                words = [np.array(self.nodes[arg].immediates, dtype=np.int64) for arg in args]
                return self._constant(int(how.build(call)(*words)[0]))
            column = self.width + len(self.precomputed)
            self._columns[call, how] = column
            self.precomputed.append(PrecomputedCall(call, how, args))
        return self.add(Node("load", (), (column,)))


OPCODES = {name.lower(): value for name, value in vars(opcodes).items() if name.isupper()}
WEIGHTS = {"const": 0, "load": 0, "fetch": 4, "memo": 6, "text_compare": 10, "in_set": 3}
"""Approximate cost per row in additions: a fetch misses the cache, text operations read bytes."""
TEXT = frozenset({"text_compare", "text_word"})
FIRST_CONSTANT = 2
"""Constants 0 and 1 are the number of registers and of constant registers."""


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code: ``instructions int64[k, 5]`` and ``constants`` in the layout of ``vm.run``."""

    instructions: Words
    constants: Words
    outputs: int
    filters: bool
    memos: bool
    text: bool


@dataclass(slots=True)
class _Instruction:
    """Instruction before register allocation: a node to compute, store, or filter by."""

    kind: str
    node: int
    position: int = 0


@dataclass(slots=True)
class _Assembly:
    nodes: list[Node]
    steps: list[_Instruction] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    constants: list[int] = field(default_factory=list)

    def compute(self, number: int) -> None:
        """Append the instructions of a node and of the nodes that it needs."""
        if number in self.done:
            return
        self.done.add(number)
        node = self.nodes[number]
        if node.name == "const":
            self.constants.append(number)
            return
        for operand in node.operands:
            self.compute(operand)
        self.steps.append(_Instruction("compute", number))


def assemble(lowering: Lowering, predicates: Sequence[int], outputs: Sequence[int]) -> Code:
    """Return machine code that filters rows by all predicate nodes and computes the output nodes.

    Cheap predicates run first; those with the same inputs are combined before rows are dropped.
    """
    assembly = _Assembly(lowering.nodes)
    for group in _groups(lowering, predicates):
        assembly.compute(group)
        assembly.steps.append(_Instruction("filter", group))
    for position, number in enumerate(outputs):
        assembly.compute(number)
        assembly.steps.append(_Instruction("store", number, position))
    return _encode(assembly, len(outputs), bool(predicates))


def _reachable(nodes: list[Node], number: int) -> set[int]:
    visited: set[int] = set()
    stack = [number]
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            stack.extend(nodes[node].operands)
    return visited


def _interval(nodes: list[Node], number: int) -> tuple[int, int, int] | None:
    """Return ``(x, low, high)`` if a predicate is equivalent to: node ``x`` is from low to high."""
    node = nodes[number]
    if node.name == "between":
        low, high = node.immediates
        return node.operands[0], low, high
    if node.name not in ("le", "lt", "eq"):
        return None
    left, right = (nodes[operand] for operand in node.operands)
    beyond = 1 if node.name == "lt" else 0
    if (left.name == "const") == (right.name == "const"):
        return None
    word = (left if left.name == "const" else right).immediates[0]
    if not MIN_WORD < word < MAX_WORD:
        return None
    operand = node.operands[1 if left.name == "const" else 0]
    if node.name == "eq":
        return operand, word, word
    return (operand, word + beyond, MAX_WORD) if left.name == "const" else (operand, MIN_WORD, word - beyond)


def _conjunction(lowering: Lowering, first: int, second: int) -> int:
    """Return the conjunction of two predicates.

    It is an error where one of them is an error and neither rejects the row.
    """
    first_interval, second_interval = _interval(lowering.nodes, first), _interval(lowering.nodes, second)
    if first_interval is None or second_interval is None or first_interval[0] != second_interval[0]:
        return lowering.add(Node("both", (first, second)))
    bounds = max(first_interval[1], second_interval[1]), min(first_interval[2], second_interval[2])
    return lowering.add(Node("between", first_interval[:1], bounds))


def _groups(lowering: Lowering, predicates: Sequence[int]) -> list[int]:
    nodes = lowering.nodes
    costs = {p: sum(WEIGHTS.get(nodes[n].name, 1) for n in _reachable(nodes, p)) for p in predicates}
    groups: list[tuple[frozenset[int], int]] = []
    for predicate in sorted(dict.fromkeys(predicates), key=lambda p: costs[p]):
        reads = frozenset(
            n for n in _reachable(nodes, predicate) if nodes[n].name in ("load", "fetch", "memo")
        )
        if groups and groups[-1][0] == reads:
            groups[-1] = reads, _conjunction(lowering, groups[-1][1], predicate)
        else:
            groups.append((reads, predicate))
    return [number for _, number in groups]


def _last_uses(assembly: _Assembly) -> dict[int, int]:
    last: dict[int, int] = {}
    for at, step in enumerate(assembly.steps):
        used = assembly.nodes[step.node].operands if step.kind == "compute" else (step.node,)
        for number in used:
            last[number] = at
    return last


def _encode(assembly: _Assembly, outputs: int, filters: bool) -> Code:
    nodes = assembly.nodes
    last = _last_uses(assembly)
    ends: dict[int, list[int]] = {}
    for number, place in last.items():
        ends.setdefault(place, []).append(number)
    register = {number: at for at, number in enumerate(assembly.constants)}
    fixed = set(assembly.constants)
    live: set[int] = set()
    free: list[int] = []
    count = len(register)
    pool = [nodes[number].immediates[0] for number in assembly.constants]
    rows: list[list[int]] = []
    for at, step in enumerate(assembly.steps):
        if step.kind == "compute":
            if free:
                target = free.pop()
            else:
                target = count
                count += 1
            register[step.node] = target
            rows.append(_instruction(nodes[step.node], target, register, pool))
            live.add(step.node)
        else:
            target = step.position if step.kind == "store" else 0
            rows.append([OPCODES[step.kind], target, register[step.node], 0, 0])
        over = ends.get(at, [])
        if step.kind == "compute" and step.node not in last:
            over = [*over, step.node]  # unused result
        for number in over:
            if number in live:
                live.discard(number)
                free.append(register[number])
        if step.kind == "filter":
            rows.extend([OPCODES["compact"], register[number], 0, 0, 0] for number in sorted(live - fixed))
    constants = np.array([max(count, 1), len(assembly.constants), *pool, 0, 0], dtype=np.int64)
    names = {nodes[step.node].name for step in assembly.steps}
    instructions = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Code(instructions, constants, outputs, filters, "memo" in names, bool(names & TEXT))


def _instruction(node: Node, target: int, register: dict[int, int], pool: list[int]) -> list[int]:
    operands = list(_operands(node, register, pool))
    operands += [0] * (3 - len(operands))
    if node.limits is not None:
        operands[2] = FIRST_CONSTANT + len(pool)
        pool.extend(node.limits)
    return [OPCODES[node.name], target, *operands]


def _operands(node: Node, register: dict[int, int], pool: list[int]) -> Iterator[int]:
    yield from (register[number] for number in node.operands)
    if node.name == "load":
        yield 0
    if node.name == "in_set":
        yield FIRST_CONSTANT + len(pool)
        yield len(node.immediates)
        pool.extend(node.immediates)
    elif node.name == "between":
        yield FIRST_CONSTANT + len(pool)
        pool.extend(node.immediates)
    else:
        yield from node.immediates


NO_WORDS: Words = np.empty(0, dtype=np.int64)
NO_PAIRS: Words = np.empty((2, 0), dtype=np.int64)
NO_BYTES: "np.ndarray[Any, np.dtype[np.uint8]]" = np.empty(0, dtype=np.uint8)
ONE_ROW: Words = np.empty((0, 1), dtype=np.int64)


class Segment:
    """Predicates and outputs that the machine evaluates in one go."""

    def __init__(self, sources: Sources, predicates: Sequence[Scalar], outputs: Sequence[Scalar]) -> None:
        parts = [part for predicate in predicates for part in conjuncts(predicate)]
        reads = [index for scalar in (*parts, *outputs) for index in columns(scalar)]
        lowering = Lowering(sources, max(reads, default=-1) + 1, fold)
        passing = [lowering.lower(part) for part in parts]
        results = [lowering.lower(output) for output in outputs]
        lowering.prune_precomputed((*passing, *results))
        self.sources = sources
        self.has_precomputed = bool(lowering.precomputed)
        self._width = lowering.width
        self._precomputed = [
            (call, Machine(sources, assemble(lowering, (), call.args))) for call in lowering.precomputed
        ]
        self._small_calls: dict[PrecomputedCall, SmallCall] = {}
        self.machine = Machine(sources, assemble(lowering, passing, results))

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Return outputs and positions of the rows that pass, and the flags (see ``Machine.run``)."""
        if self._precomputed:
            data = np.ascontiguousarray(data[: self._width])
            for call, machine in self._precomputed:
                args, _, _ = machine.run(data)
                data = np.concatenate((data, self._compute(call, args).reshape(1, -1)))
        return self.machine.run(data)

    def _compute(self, precomputed: PrecomputedCall, args: Words) -> Words:
        how = precomputed.implementation
        match how:
            case VectorFunction():
                return how.build(precomputed.call)(*args)
            case MemoizedFunction():
                dictionary = self.sources.context.dictionary
                if args.shape[1] > FEW_ROWS or dictionary.is_for_reply:  # results of a reply are not cached
                    return apply_memoized(precomputed.call, how, args, dictionary)
                small_call = self._small_calls.get(precomputed)
                if small_call is None:
                    small_call = self._small_calls[precomputed] = SmallCall(precomputed.call, how, dictionary)
                return small_call.results(args)
            case ColumnFunction():
                return apply_columns(precomputed.call, how, args, self.sources.context.dictionary)
            case _:
                assert_never(how)


class Machine:
    """Code with the arrays that it reads."""

    def __init__(self, sources: Sources, code: Code, *, constant: bool = False) -> None:
        """Create the machine; with ``constant`` its code reads no table."""
        self.code = code
        self.sources = sources
        self.status = np.zeros(3, dtype=np.int64)
        self._reads_sources = bool(sources.entries) and not constant

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Return outputs and positions of the rows that pass, and flags.

        Flag 1 means that an ERROR passed a filter, 2 that one is stored. Positions are empty without
        filters.
        """
        code = self.code
        total = data.shape[1]
        out = np.empty((code.outputs, total), dtype=np.int64)
        positions = np.empty(total, dtype=np.int64) if code.filters else NO_WORDS
        if self._reads_sources or code.text:
            passed = self._run_with_sources(data, out, positions)
        else:
            passed = vm.run(
                code.instructions,
                code.constants,
                data,
                NO_PAIRS,
                NO_BYTES,
                NO_WORDS,
                out,
                positions,
                NO_PAIRS,
                self.status,
            )
        flags = 0
        if passed < 0:
            passed = -1 - passed
            flags = int(self.status[1] + 2 * self.status[2])
        if passed != total:
            out = out.reshape(-1)[: code.outputs * passed].reshape(code.outputs, passed)
            positions = positions[:passed]
            if 2 * passed < total:
                out, positions = out.copy(), positions.copy()
        return out, positions, flags

    def _run_with_sources(self, data: Words, out: Words, positions: Words) -> int:
        """Run until no memo entry is missing; each pass finds the strings that the next level needs."""
        code, sources, dictionary = self.code, self.sources, self.sources.context.dictionary
        room = data.shape[1] * sources.memos if code.memos else 0
        missing = np.empty((2, room), dtype=np.int64) if room else NO_PAIRS
        while True:
            addresses = sources.refresh()
            passed = vm.run(
                code.instructions,
                code.constants,
                data,
                addresses,
                dictionary.arena,
                dictionary.offsets,
                out,
                positions,
                missing,
                self.status,
            )
            if passed >= 0 or self.status[0] == 0:
                return int(passed)
            sources.fill_memos(missing[:, : self.status[0]])


def conjuncts(predicate: Scalar) -> list[Scalar]:
    """Return the conditions that a predicate joins by AND."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for arg in predicate.args for part in conjuncts(arg)]
    return [predicate]


def fold(lowering: Lowering, number: int) -> int:
    """Return the word of a node without inputs."""
    code = assemble(lowering, (), (number,))
    out, _, _ = Machine(lowering.sources, code, constant=not code.memos).run(ONE_ROW)
    return int(out[0, 0])
