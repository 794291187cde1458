"""Static analyses and an ontology in Datalog: what a derivation costs.

    python benchmarks/datalog_analysis.py --facts 100000
    python benchmarks/datalog_analysis.py --workloads andersen --facts 10000 --profile

``csda`` follows nulls along dataflow, ``cspa`` is the context-sensitive points-to analysis with value and
memory aliases (both Graspan's, as FlowLog and RecStep run them), ``andersen`` inclusion-based points-to,
``galen`` the completion rules of EL. Facts are made up (``_analysis.py``), there when the clock starts, and
not indexed; the clock stops when all rows are known. A derivation is a row that a rule gives to the distinct
of its relation: what differs only in variables that the head leaves out counts each time.
"""

import argparse
from dataclasses import dataclass

import _analysis
from _analysis import Facts
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import note, profiled, state_bytes, worker_of

import kpg

AIM = 300e-9
"""Seconds a derivation."""

CSDA = """
.decl arc(from: number, to: number)
.decl null(from: number, to: number)
.input arc, null
.decl null_node(origin: number, node: number)
null_node(x, y) :- null(x, y).
null_node(x, y) :- null_node(x, w), arc(w, y).
"""
CSPA = """
.decl assign(to: number, from: number)
.decl dereference(pointer: number, value: number)
.input assign, dereference
.decl value_flow(x: number, y: number)
.decl memory_alias(x: number, y: number)
.decl value_alias(x: number, y: number)
value_flow(y, x) :- assign(y, x).
value_flow(x, x) :- assign(x, _) ; assign(_, x).
value_flow(x, y) :- value_flow(x, z), value_flow(z, y).
value_flow(x, y) :- assign(x, z), memory_alias(z, y).
memory_alias(x, w) :- dereference(y, x), value_alias(y, z), dereference(z, w).
memory_alias(x, x) :- assign(x, _) ; assign(_, x).
value_alias(x, y) :- value_flow(z, x), value_flow(z, y).
value_alias(x, y) :- value_flow(z, x), memory_alias(z, w), value_flow(w, y).
"""
ANDERSEN = """
.decl address_of(p: number, object: number)
.decl copy(p: number, q: number)
.decl load(p: number, q: number)
.decl store(p: number, q: number)
.input address_of, copy, load, store
.decl points_to(p: number, object: number)
points_to(p, o) :- address_of(p, o).
points_to(p, o) :- copy(p, q), points_to(q, o).
points_to(p, o) :- load(p, q), points_to(q, r), points_to(r, o).
points_to(r, o) :- store(p, q), points_to(p, r), points_to(q, o).
"""
GALEN = """
.decl isa(x: number, y: number)
.decl has(x: number, r: number, z: number)
.decl some(w: number, r: number, z: number)
.decl both(y: number, w: number, z: number)
.decl sub(r: number, t: number)
.decl chain(r: number, u: number, e: number)
.input isa, has, some, both, sub, chain
.decl p(x: number, y: number)
.decl q(x: number, r: number, z: number)
p(x, y) :- isa(x, y).
q(x, r, z) :- has(x, r, z).
p(x, z) :- p(x, y), p(y, z).
q(x, r, z) :- p(x, y), q(y, r, z).
p(x, z) :- p(y, w), some(w, r, z), q(x, r, y).
p(x, z) :- both(y, w, z), p(x, w), p(x, y).
q(x, t, z) :- q(x, r, z), sub(r, t).
q(x, e, o) :- q(x, y, z), chain(y, u, e), q(z, u, o).
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A program and its facts; ``wanted`` is a relation that has all others computed."""

    name: str
    program: str
    facts: Facts
    wanted: str

    @property
    def size(self) -> int:
        """How many facts."""
        return sum(rows.shape[1] for rows in self.facts.values())


def workload(name: str, facts: int, seed: int) -> Workload:
    """The workload of that name with about so many facts."""
    match name:
        case "csda":
            return Workload(name, CSDA, _analysis.dataflow(facts, facts // 20, seed), "null_node")
        case "cspa":
            return Workload(name, CSPA, _analysis.pointers(facts, seed), "value_flow")
        case "andersen":
            return Workload(name, ANDERSEN, _analysis.statements(facts, seed), "points_to")
        case _:
            return Workload(name, GALEN, _analysis.ontology(facts, seed), "p")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took and made."""

    spent: Elapsed
    rows: int
    derivations: int
    state: int


def run(work: Workload, profile: bool = False) -> Run:
    """Derive everything once."""
    with kpg.connect() as database:
        program = database.datalog(work.program)
        for name, rows in work.facts.items():
            columns = columns_of(database, name)
            database.insert(name, dict(zip(columns, rows, strict=True)))
        if profile:
            profiled(lambda: program[work.wanted], database)
        spent = elapsed(lambda: program[work.wanted])
        distincts = [one for one in worker_of(database).operators() if one.description == "Distinct"]
        return Run(
            spent,
            sum(one.updates_out for one in distincts),
            sum(one.updates_in for one in distincts),
            state_bytes(database),
        )


def columns_of(database: kpg.Database, name: str) -> list[str]:
    """The columns of a table."""
    return [column.name for column in database._engine.table(name).schema.columns]


def measure(work: Workload, options: argparse.Namespace) -> Measurement:
    """The processor's time a derivation."""
    runs = []
    for _ in range(options.runs):
        one = run(work)
        cost = one.spent.processor / one.derivations
        note(
            f"{work.name}: {work.size:,} facts, {one.rows:,} rows, {one.derivations:,} derivations in"
            f" {one.spent.processor:.2f} s: {cost * 1e9:.0f} ns each; {one.state / 1e6:,.0f} MB of state"
        )
        runs.append(one)
    if options.profile:
        run(work, profile=True)
    details = {
        "facts": work.size,
        "rows": runs[0].rows,
        "derivations": runs[0].derivations,
        "state_bytes": runs[0].state,
        "processor_seconds": [one.spent.processor for one in runs],
        "wall_seconds": [one.spent.wall for one in runs],
    }
    costs = tuple(one.spent.processor / one.derivations for one in runs)
    return Measurement(f"{work.name}, a derivation", "s", costs, {"aim": AIM}, details)


def main() -> None:
    parser = arguments(__doc__ or "")
    names = ("csda", "cspa", "andersen", "galen")
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--facts", type=int, default=100_000, help="about so many facts each")
    parser.add_argument("--seed", type=int, default=1, help="of the facts")
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    for name in options.workloads:
        run(workload(name, 1000, options.seed))
    measured = [measure(workload(name, options.facts, options.seed), options) for name in options.workloads]
    report("analyses in Datalog", measured, options.json)


if __name__ == "__main__":
    main()
