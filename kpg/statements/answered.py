"""Answers of queries over the system's relations alone: kept until the catalog is another.

Programs that look at a database ask the same again and again. To plan such a query, of ten relations often,
takes a hundred times as long as to find that nothing has changed.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final

from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.cache import noting, viewpoint
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parameterize.normalization import normal
from kpg.compiler.sql.parameterize.parameters import has_marks
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.queries.planning import bind
from kpg.result import Result
from kpg.statements.statements import begin

MOST_ROWS: Final = 10_000
Compute = Callable[[Engine, Bound, Catalog], Result]


def answered(engine: Engine, text: str) -> Iterator[Result] | None:
    """The rows of a text that was asked before, if they are the same; None if they are not known."""
    key = (text.strip().removesuffix(";").rstrip(), None, viewpoint(engine.catalog))
    found: Result | None = engine.remembered.answers.get(engine.catalog, key)

    def outcome() -> Iterator[Result]:
        assert found is not None
        begin(engine)
        with engine.transactions.statement(changes=False):
            result = found.again()
        yield result

    return None if found is None else outcome()


def answer(engine: Engine, statement: ast.Select, compute: Compute) -> Result:
    """The rows of a query that may ask the system: as ``compute`` has them, or has had them before."""
    catalog, text = engine.catalog, statement.text
    key: Hashable = (text, statement.query if has_marks(text) else None, viewpoint(catalog))
    kept = engine.remembered.answers
    found: Result | None = kept.get(catalog, key)
    if found is not None:
        return found.again()
    reading, consulted = engine.reading_catalog, catalog.consulted
    before = consulted.times, consulted.steady
    with noting(catalog) as told:
        bound = bind(statement, reading)
    result = compute(engine, bound, reading)
    times, steady = consulted.times - before[0], consulted.steady - before[1]
    if times == steady > 0 and len(result) <= MOST_ROWS and _alone(engine, bound):
        kept.put(catalog, key, result, told)
        plain = normal(text)
        if plain is not None:
            engine.remembered.of_system.put(plain.text, True)
        return result.again()
    return result


def _alone(engine: Engine, bound: Bound) -> bool:
    """Whether a query asks the system and nothing else."""
    return not engine.catalog.functions and not any(isinstance(node, Get) for node in walk(bound.rel))
