"""How long it takes until a Datalog program is there: from its text to relations that are maintained.

    python benchmarks/datalog_install.py --rules 100
    python benchmarks/datalog_install.py --rules 100 --profile

The program is made up: relations in layers of recursive pairs, bodies of two to four atoms with a negation
or an aggregate here and there; every relation is put out. Its inputs hold a few rows. ``cold`` is the first
installation in the process, but for a small program that has kernels loaded; ``warm`` a later one. Each is
into a new database. The shares are of warm ones: ``check`` parses and checks, ``lower`` makes algebra of the
rules, ``plan`` is passes and planning, ``render`` makes operators and derives; ``rest`` is the catalog.
"""

import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
from _common import Measurement, arguments, elapsed, keep_memory, report

import kpg
from kpg.compiler import pipeline
from kpg.datalog import dispatch, installation, program_plans
from kpg.runtime.worker.worker import Worker

AIM = 1.0
LAYER = 10
"""Rules of a layer."""


def program(rules: int) -> str:
    """The text of a program of so many rules, up to whole layers."""
    layers = max(1, round(rules / LAYER))
    parts = [".decl base(x: number, y: number)", ".decl mark(x: number)", ".input base, mark"]
    below = "base"
    for number in range(layers):
        parts.append(layer(number, below))
        below = f"step{number}"
    return "\n".join(parts)


def layer(number: int, below: str) -> str:
    """Ten rules over the relation below: two recursive relations, and what is made of them."""
    p, q, r, s, t = (f"{name}{number}" for name in ("path", "back", "pick", "sum", "step"))
    return f"""
.decl {p}(x: number, y: number)
.decl {q}(x: number, y: number)
.decl {r}(x: number, y: number)
.decl {s}(x: number, n: number)
.decl {t}(x: number, y: number)
.output {p}, {q}, {r}, {s}, {t}
{p}(x, y) :- {below}(x, y).
{p}(x, z) :- {p}(x, y), {below}(y, z), !mark(z).
{p}(x, z) :- {q}(x, y), base(y, z).
{q}(x, y) :- {p}(y, x), mark(x).
{q}(x, z) :- {q}(x, y), {p}(y, z), base(z, _).
{r}(x, y) :- {p}(x, y), !{q}(x, y), x != y.
{r}(x, y) :- base(x, z), {p}(z, y), base(w, y), mark(w).
{s}(x, n) :- mark(x), n = count : {{ {r}(x, _) }}.
{t}(x, y) :- {r}(x, y), {s}(x, n), n < 100.
{t}(x, y) :- {q}(x, y) ; base(x, y), {s}(y, 0).
"""


def install(text: str) -> None:
    """Install the program in a new database with a few rows."""
    with kpg.connect() as database:
        database.sql("SELECT 1")
        run(database, text)


def run(database: kpg.Database, text: str) -> None:
    """Install the program and give it rows."""
    database.datalog(text + "\nbase(1, 2). base(2, 3). base(3, 1). base(4, 5). mark(2). mark(4).")


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Seconds of the processor in each part, while the block runs."""
    spent: dict[str, float] = {}

    def timed(part: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            start = time.process_time()
            try:
                return original(*args, **keywords)
            finally:
                spent[part] = spent.get(part, 0.0) + time.process_time() - start

        return call

    places = (
        ("check", dispatch, "check"),
        ("lower", program_plans, "definition"),
        ("lower", installation, "definition"),
        ("plan", pipeline, "compile_query"),
        ("render", Worker, "install"),
    )
    with ExitStack() as stack:
        for part, holder, name in places:
            stack.enter_context(mock.patch.object(holder, name, timed(part, getattr(holder, name))))
        yield spent


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rules", type=int, default=100, help="rules of the program")
    parser.add_argument("--profile", action="store_true", help="one more run, under the profiler")
    options = parser.parse_args()
    keep_memory()
    install(program(LAYER))
    text = program(options.rules)
    cold = elapsed(lambda: install(text))
    warm, parts = [], []
    for _ in range(options.runs):
        with watched() as spent:
            warm.append(elapsed(lambda: install(text)))
        parts.append(spent)
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(install, text)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25).sort_stats("cumtime").print_stats(50)
    name = f"{round(options.rules / LAYER) * LAYER} rules"
    found = [
        Measurement(f"{name}, cold", "s", (cold.processor,), {"aim": AIM}, {"wall": cold.wall}),
        Measurement(
            f"{name}, warm", "s", tuple(one.processor for one in warm), {"aim": AIM},
            {"wall": [one.wall for one in warm]},
        ),
    ]  # fmt: skip
    for part in ("check", "lower", "plan", "render"):
        found.append(Measurement(f"  {part}", "s", tuple(one.get(part, 0.0) for one in parts)))
    rest = [one.processor - sum(spent.values()) for one, spent in zip(warm, parts, strict=True)]
    found.append(Measurement("  rest", "s", tuple(float(np.maximum(one, 0)) for one in rest)))
    report("installing a Datalog program", found, options.json)


if __name__ == "__main__":
    main()
