"""Operations to machine code: predicates ordered, registers allocated, instructions encoded."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from kpg.runtime.kernels import opcodes
from kpg.runtime.mfp.lower import Lowering, Node
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD

Words = np.ndarray[Any, np.dtype[np.int64]]

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
