"""Points-to analysis (Graspan's) of a made-up program, and how soon it knows of an assignment that went.

    python benchmarks/datalog_points_to.py --facts 100000
    python benchmarks/datalog_points_to.py --facts 10000 --profile

Plain and in the optimised form that has no value aliases (``datalog_examples/points_to``), each in a database
of its own, and both in one, where they share the indexes of the facts. First everything is derived from facts
that are there; then assignments are deleted one by one, each a transaction of its own through the public API.
The two forms must agree at the end.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from _analysis import Facts, Words, pointers
from _common import Elapsed, Measurement, arguments, elapsed, keep_memory, report
from _flows import note, profiled, quantiles, state_bytes

import kpg

AIM = 5e-3
"""Seconds, for the median."""
TABLES = """
CREATE TABLE assign (a BIGINT, b BIGINT, PRIMARY KEY (a, b));
CREATE TABLE dereference (a BIGINT, b BIGINT, PRIMARY KEY (a, b));
"""
SAME = """
.decl place(x: number)
.decl value_flow(x: number, y: number)
.decl memory_alias(x: number, y: number)
place(x) :- assign(x, _) ; assign(_, x) ; dereference(x, _) ; dereference(_, x).
value_flow(a, a) :- place(a).
value_flow(a, b) :- assign(a, x), value_flow(x, b).
value_flow(a, b) :- assign(a, x), memory_alias(x, y), value_flow(y, b).
"""
PLAIN = """
.decl value_alias(x: number, y: number)
memory_alias(a, b) :- dereference(x, a), value_alias(x, y), dereference(y, b).
value_alias(a, b) :- value_flow(x, a), value_flow(x, b).
value_alias(a, b) :- value_flow(x, a), memory_alias(x, y), value_flow(y, b).
"""
OPTIMISED = """
.decl flow_to_dereference(x: number, y: number)
flow_to_dereference(a, b) :- value_flow(a, x), dereference(x, b).
memory_alias(a, b) :- flow_to_dereference(x, a), flow_to_dereference(x, b).
memory_alias(a, b) :- flow_to_dereference(x, a), memory_alias(x, y), flow_to_dereference(y, b).
"""
FORMS = {"plain": PLAIN, "optimised": OPTIMISED}
RESULTS = ("value_flow", "memory_alias")


@dataclass(slots=True)
class Run:
    """What one database did: with the forms in it, seconds of deriving and of each deletion."""

    forms: Sequence[str]
    derived: Elapsed = field(default_factory=lambda: Elapsed(0.0, 0.0))
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    state: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    answers: list[Words] = field(default_factory=list)


def run(forms: Sequence[str], facts: Facts, removed: Words, profile: bool = False) -> Run:
    """Derive by all the forms, then take the assignments ``int64[2, n]`` away."""
    result = Run(forms)
    with kpg.connect() as database:
        database.sql(TABLES)
        for name, rows in facts.items():
            database.insert(name, {"a": rows[0], "b": rows[1]})
        views: list[kpg.View] = []
        result.derived = elapsed(lambda: views.extend(installed(database, forms)))
        result.state = state_bytes(database)
        result.rows = {view.name: len(view) for view in views}
        if profile:
            profiled(lambda: remove(database, removed, result), database)
        else:
            remove(database, removed, result)
        result.answers = [rows_of(view) for view in views]
    return result


def installed(database: kpg.Database, forms: Sequence[str]) -> list[kpg.View]:
    """The results of the forms; each form's relations have names of their own."""
    views = []
    for form in forms:
        text = SAME + FORMS[form]
        for name in ("place", *RESULTS, "value_alias", "flow_to_dereference"):
            text = text.replace(f"{name}(", f"{form}_{name}(")
        program = database.datalog(text)
        views += [program[f"{form}_{name}"] for name in RESULTS]
    return views


def remove(database: kpg.Database, removed: Words, result: Run) -> None:
    """Delete the assignments one by one."""
    for pair in removed.T.tolist():
        start, processor = time.perf_counter(), time.process_time()
        database.delete("assign", [tuple(pair)])
        result.seconds.append(time.perf_counter() - start)
        result.processor.append(time.process_time() - processor)


def rows_of(view: kpg.View) -> Words:
    """The rows of a view in order."""
    rows = np.array(list(view), np.int64).reshape(-1, 2).T
    return rows[:, np.lexsort(rows[::-1])]


def measured(one: Run) -> tuple[Measurement, ...]:
    """The deletions, on the clock and of the processor, and the time that deriving took."""
    name = " and ".join(one.forms) + (", shared" if len(one.forms) > 1 else "")
    p50, p95 = (1000 * float(np.quantile(one.seconds, q)) for q in (0.5, 0.95))
    note(
        f"{name}: {one.rows}, derived in {one.derived.processor:.2f} s, {one.state / 1e6:.0f} MB of state;"
        f" deletions: median {p50:.2f} ms, p95 {p95:.2f}, most {1000 * max(one.seconds):.1f}"
    )
    derived = {"state_bytes": one.state, "rows": one.rows, "wall": one.derived.wall}
    return (
        Measurement(
            f"{name}: a deletion", "s", tuple(one.seconds), {"aim": AIM}, dict(quantiles(one.seconds))
        ),
        Measurement(
            "  of the processor", "s", tuple(one.processor), {"aim": AIM}, dict(quantiles(one.processor))
        ),
        Measurement("  derive all", "s", (one.derived.processor,), {}, derived),
    )


def agree(runs: Sequence[Run]) -> None:
    """Exit unless all forms have the same answers at the end."""
    answers = [one.answers[place : place + 2] for one in runs for place in range(0, len(one.answers), 2)]
    for other in answers[1:]:
        for name, left, right in zip(RESULTS, answers[0], other, strict=True):
            if not np.array_equal(left, right):
                raise SystemExit(f"{name} differs: {left.shape[1]:,} and {right.shape[1]:,} rows")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--facts", type=int, default=100_000, help="assignments and dereferences")
    parser.add_argument("--removed", type=int, default=1000, help="assignments that go one by one")
    parser.add_argument("--seed", type=int, default=1, help="of the facts")
    parser.add_argument(
        "--profile", action="store_true", help="one more run, the deletions under the profiler"
    )
    options = parser.parse_args()
    keep_memory()
    small = pointers(1000, options.seed)
    facts = pointers(options.facts, options.seed)
    chosen = np.random.default_rng(options.seed).permutation(facts["assign"].shape[1])[: options.removed]
    removed = np.ascontiguousarray(facts["assign"][:, chosen])
    runs = []
    for forms in (("plain",), ("optimised",), ("plain", "optimised")):
        run(forms, small, small["assign"][:, :20])
        runs.append(run(forms, facts, removed))
    agree(runs)
    found = [one for each in runs for one in measured(each)]
    if options.profile:
        for form in FORMS:
            run((form,), facts, removed, profile=True)
    report("points-to analysis", found, options.json)


if __name__ == "__main__":
    main()
