"""Compilation of scalars to the bytecode of the expression machine.

:class:`Lowering` replaces functions by their implementations and folds constants. It builds a graph with one
node for equal subexpressions, operands numbered before their users. A call that the machine cannot run (a
Python function of two columns) becomes a :class:`Detached` column, computed before the machine runs.
:func:`assemble` orders predicates, allocates registers and encodes instructions.

A :class:`Segment` is a set of predicates and outputs that run together. It flags errors that count; its
caller decides whether to raise them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import reduce
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
from kpg.runtime.kernels import opcodes, vm
from kpg.runtime.mfp.python_calls import (
    FEW,
    Context,
    FewRows,
    Memo,
    apply_columns,
    apply_memoized,
    attempt,
    fused,
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
        if how.in_order:
            return reduce(lambda left, right: self.add(Node(how.name, (left, right), (), bounds)), operands)
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


OPCODES = {name.lower(): value for name, value in vars(opcodes).items() if name.isupper()}
WEIGHTS = {"const": 0, "load": 0, "fetch": 4, "memo": 6, "text_compare": 10, "in_set": 3}
"""About what an instruction costs a row, in additions: a fetch misses the cache, texts go by bytes."""
TEXT = frozenset({"text_compare", "text_word"})
FIRST_CONSTANT = 2
"""Constants 0 and 1 say how many registers there are, and how many of them are constant."""


@dataclass(frozen=True, slots=True)
class Code:
    """What the machine runs: ``instructions int64[k, 5]`` and ``constants`` as ``vm.run`` takes them."""

    instructions: Words
    constants: Words
    outputs: int
    filters: bool
    memos: bool
    text: bool


@dataclass(slots=True)
class _Step:
    """An instruction before registers are allocated: a node computed, stored, or filtered by."""

    kind: str
    node: int
    position: int = 0


@dataclass(slots=True)
class _Assembly:
    nodes: list[Node]
    steps: list[_Step] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    constants: list[int] = field(default_factory=list)

    def compute(self, number: int) -> None:
        """Appends the steps for a node and the nodes it needs."""
        if number in self.done:
            return
        self.done.add(number)
        node = self.nodes[number]
        if node.name == "const":
            self.constants.append(number)
            return
        for operand in node.operands:
            self.compute(operand)
        self.steps.append(_Step("compute", number))


def assemble(lowering: Lowering, predicates: Sequence[int], outputs: Sequence[int]) -> Code:
    """Machine code for rows that satisfy all predicate nodes, and their output nodes.

    Cheap predicates run first; those that read the same inputs are joined before rows are dropped.
    """
    assembly = _Assembly(lowering.nodes)
    for group in _groups(lowering, predicates):
        assembly.compute(group)
        assembly.steps.append(_Step("filter", group))
    for position, number in enumerate(outputs):
        assembly.compute(number)
        assembly.steps.append(_Step("store", number, position))
    return _encode(assembly, len(outputs), bool(predicates))


def _reach(nodes: list[Node], number: int) -> set[int]:
    found: set[int] = set()
    stack = [number]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(nodes[node].operands)
    return found


def _interval(nodes: list[Node], number: int) -> tuple[int, int, int] | None:
    """``(x, low, high)`` if a predicate is true where node ``x`` is a word from low to high, and not else."""
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


def _both(lowering: Lowering, first: int, second: int) -> int:
    """A node that is true where two predicates are, and an error where the two are more than false."""
    one, other = _interval(lowering.nodes, first), _interval(lowering.nodes, second)
    if one is None or other is None or one[0] != other[0]:
        return lowering.add(Node("both", (first, second)))
    bounds = max(one[1], other[1]), min(one[2], other[2])
    return lowering.add(Node("between", one[:1], bounds))


def _groups(lowering: Lowering, predicates: Sequence[int]) -> list[int]:
    nodes = lowering.nodes
    costs = {p: sum(WEIGHTS.get(nodes[n].name, 1) for n in _reach(nodes, p)) for p in predicates}
    groups: list[tuple[frozenset[int], int]] = []
    for predicate in sorted(dict.fromkeys(predicates), key=lambda p: costs[p]):
        reads = frozenset(n for n in _reach(nodes, predicate) if nodes[n].name in ("load", "fetch", "memo"))
        if groups and groups[-1][0] == reads:
            groups[-1] = reads, _both(lowering, groups[-1][1], predicate)
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
            over = [*over, step.node]  # nobody uses it
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
        lowering.keep((*passing, *results))
        self.sources = sources
        self.detached = bool(lowering.detached)
        self._width = lowering.width
        self._beside = [
            (detached, Machine(sources, assemble(lowering, (), detached.args)))
            for detached in lowering.detached
        ]
        self._few: dict[Detached, FewRows] = {}
        self.machine = Machine(sources, assemble(lowering, passing, results))

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Outputs and positions of the rows that passed, and the machine's flags (see ``Machine.run``)."""
        if self._beside:
            data = np.ascontiguousarray(data[: self._width])
            for detached, machine in self._beside:
                args, _, _ = machine.run(data)
                data = np.concatenate((data, self._compute(detached, args).reshape(1, -1)))
        return self.machine.run(data)

    def _compute(self, detached: Detached, args: Words) -> Words:
        how = detached.implementation
        match how:
            case Vector():
                return how.build(detached.call)(*args)
            case Memoized():
                dictionary = self.sources.context.dictionary
                if args.shape[1] > FEW or dictionary.passes:  # what goes into a reply is not remembered
                    return apply_memoized(detached.call, how, args, dictionary)
                few = self._few.get(detached)
                if few is None:
                    few = self._few[detached] = FewRows(detached.call, how, dictionary)
                return few.of(args)
            case Columns():
                return apply_columns(detached.call, how, args, self.sources.context.dictionary)
            case _:
                assert_never(how)


class Machine:
    """Code ready to run, with the arrays that it needs at hand."""

    def __init__(self, sources: Sources, code: Code, *, constant: bool = False) -> None:
        """``constant``: it reads no table."""
        self.code = code
        self.sources = sources
        self.status = np.zeros(3, dtype=np.int64)
        self._reads_sources = bool(sources.entries) and not constant

    def run(self, data: Words) -> tuple[Words, Words, int]:
        """Outputs and positions of the rows that passed; flags: 1 an ERROR passed a filter, 2 one is stored.

        Positions are empty if the code does not filter.
        """
        code = self.code
        total = data.shape[1]
        out = np.empty((code.outputs, total), dtype=np.int64)
        kept = np.empty(total, dtype=np.int64) if code.filters else NO_WORDS
        if self._reads_sources or code.text:
            passed = self._run_with_sources(data, out, kept)
        else:
            passed = vm.run(
                code.instructions,
                code.constants,
                data,
                NO_PAIRS,
                NO_BYTES,
                NO_WORDS,
                out,
                kept,
                NO_PAIRS,
                self.status,
            )
        flags = 0
        if passed < 0:
            passed = -1 - passed
            flags = int(self.status[1] + 2 * self.status[2])
        if passed != total:
            out = out.reshape(-1)[: code.outputs * passed].reshape(code.outputs, passed)
            kept = kept[:passed]
            if 2 * passed < total:
                out, kept = out.copy(), kept.copy()
        return out, kept, flags

    def _run_with_sources(self, data: Words, out: Words, kept: Words) -> int:
        """Runs until no memo lacks an entry: each pass finds the strings that the next level needs."""
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
                kept,
                missing,
                self.status,
            )
            if passed >= 0 or self.status[0] == 0:
                return int(passed)
            sources.fill(missing[:, : self.status[0]])


def conjuncts(predicate: Scalar) -> list[Scalar]:
    """The conditions that a predicate joins by AND."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for arg in predicate.args for part in conjuncts(arg)]
    return [predicate]


def fold(lowering: Lowering, number: int) -> int:
    """The word of a node that depends on no input."""
    code = assemble(lowering, (), (number,))
    out, _, _ = Machine(lowering.sources, code, constant=not code.memos).run(ONE_ROW)
    return int(out[0, 0])
