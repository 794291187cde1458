"""EXPLAIN ROW: finds the row that the statement selects, and explains its presence or absence.

``ExplanationState`` is the state of one explanation: tables are leaves, and views are explained by
their queries.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kpg.api.result import Result, listing, plan_result
from kpg.compiler.algebra.rel import Get
from kpg.compiler.catalog.entries import Entry, TableEntry, ViewEntry, did_you_mean
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.sql.bind.query import bind
from kpg.compiler.sql.bound_tree import BoundQuery, Query, Scan, SharedScan
from kpg.compiler.sql.frontend import check_relation, lower_bound_query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.session_statements import matching_rows_query, row_values_query
from kpg.execute.queries.query_plan import plan, plan_bound
from kpg.provenance import row_text as texts
from kpg.provenance.absence import AbsenceExplainer, nearest_rows
from kpg.provenance.derivation import Children, DerivationScope, QueryExplainer
from kpg.provenance.node_rows import NO_ROUND, NodeEvaluator, RoundLimit, Words
from kpg.provenance.proof_tree import Absence, Kind, Proof
from kpg.provenance.row_text import ProofStep, RowKey, build_proof, format_row
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.errors import InternalError, NotSupportedError, ProgrammingError
from kpg.runtime.handles import RankLookup
from kpg.runtime.types import JSON, Schema
from kpg.session.engine import Engine

TABLE = "table"
"""The kind of a table's row key."""
VIEW = "view"
"""The kind of a view's row key."""


class ExplanationState:
    """The state of one explanation: the queries that it has read, and the rounds of recursive relations."""

    def __init__(self, engine: Engine, sample: int | None, resources: ExitStack) -> None:
        """Create a state.

        ``sample`` is the maximum number of an aggregate's rows to explain, None for all. Closing
        ``resources`` uninstalls the dataflows of the explanation.
        """
        self.engine = engine
        self.sample = sample
        self._resources = resources
        self._explainers: list[QueryExplainer] = []
        self._view_explainers: dict[str, QueryExplainer] = {}
        self._ranks: dict[tuple[int, str], RankLookup | None] = {}

    def proof(self, name: str, row: tuple[int, ...]) -> Proof:
        """Return the proof of a row of a relation."""
        entry = self.engine.catalog.get(name)
        key = RowKey(TABLE if isinstance(entry, TableEntry) else VIEW, entry.name, row)
        return build_proof(key, self.step)

    def columns_of(self, name: str) -> Sequence[str]:
        """Return the names of a relation's columns."""
        entry = self.engine.catalog.find(name)
        return () if entry is None else entry.schema.names

    def explain_scan(self, node: Scan, row: tuple[int, ...], *, all_derivations: bool = False) -> Children:
        """Return the explanation of a scanned row, which may have its rowid at the end."""
        if not isinstance(node.rel, Get) or self.engine.catalog.find(node.rel.name) is None:
            return ()
        if node.rel.is_table:
            return (RowKey(TABLE, node.rel.name, row),)
        return self.explain_view_row(node.rel.name, row, all_derivations=all_derivations)

    def explain_view_row(self, name: str, row: tuple[int, ...], *, all_derivations: bool = False) -> Children:
        """Return the explanation of a view's row, which may have hidden columns at the end."""
        entry = self.engine.catalog.get(name)
        return (RowKey(VIEW, entry.name, row[: len(entry.schema.columns)], all_derivations=all_derivations),)

    def step(self, key: RowKey) -> ProofStep:
        """Return the step of a row."""
        if isinstance(key.source, int):
            return self._explain_recursive(self._explainers[key.source], key)
        entry = self.engine.catalog.get(key.name)
        names = entry.schema.names
        values = self.values(key.row[: len(names)], entry.schema.types)
        text = texts.format_row(entry.name, names, values)
        if key.source == TABLE:
            return ProofStep(Kind.SOURCE, text, (), entry.name, values, names)
        assert isinstance(entry, ViewEntry)
        prove = find_prover(self.engine, entry.name)
        if prove is not None:
            proof = prove(values)
            return ProofStep(proof.kind, text, proof=proof)
        if not entry.sql:
            return ProofStep(Kind.EXTERNAL, text, (), entry.name, values, names)
        walk = self.view_explainer(entry)
        children = walk.query(
            walk.evaluator.resolved.query, key.row, DerivationScope({}, all_derivations=key.all_derivations)
        )
        return ProofStep(Kind.VIEW, text, children or (), entry.name, values, names)

    def view_explainer(self, entry: ViewEntry) -> QueryExplainer:
        """Return the explainer of the view's query."""
        if entry.name not in self._view_explainers:
            if entry.of_system:
                raise NotSupportedError(
                    f"{entry.name} reads system relations, whose rows cannot be explained"
                )
            statement = parse_query(entry.text)
            catalog = self.engine.reading_catalog
            self._view_explainers[entry.name] = self._new_explainer(bind(statement, catalog, is_view=True))
        return self._view_explainers[entry.name]

    def _new_explainer(self, resolved: BoundQuery) -> QueryExplainer:
        walk = QueryExplainer(self, NodeEvaluator(self.engine, resolved), len(self._explainers))
        self._explainers.append(walk)
        return walk

    def values(self, row: Sequence[int], types: Sequence[Any]) -> tuple[Any, ...]:
        """Return words as Python values."""
        dictionary = self.engine.executor.dictionary
        return tuple(
            texts.python_value(word, type_, dictionary) for word, type_ in zip(row, types, strict=True)
        )

    # Recursion

    def _explain_recursive(self, explainer: QueryExplainer, key: RowKey) -> ProofStep:
        """Return the step of a row of a recursive query, derived from rows of earlier rounds."""
        loop = explainer.evaluator.resolved.loops[key.name]
        query = loop.queries[loop.names.index(key.name)]
        ranks = {name: self._rank_lookup(explainer, name) for name in loop.names}
        own_ranks = ranks[key.name]
        round_ = key.round_limit or NO_ROUND
        if own_ranks is not None:
            round_ = int(own_ranks.ranks_of(np.array(key.row, np.int64).reshape(-1, 1))[0])
        scope = DerivationScope(
            {}, RoundLimit(frozenset(loop.names), round_, ranks), all_derivations=key.all_derivations
        )
        children = explainer.query(query, key.row, scope)
        return explainer.row_step(key.name, query, key.row, children or ())

    def _rank_lookup(self, explainer: QueryExplainer, name: str) -> RankLookup | None:
        """Return the rounds of a recursive query's rows. The query is maintained during the explanation."""
        key = (explainer.number, name)
        if key not in self._ranks:
            resolved = explainer.evaluator.resolved
            columns = resolved.shared_queries[name].columns
            ids = tuple(explainer.evaluator.new_column(column.type) for column in columns)
            query = Query(
                SharedScan(name, ids), tuple(map(explainer.column, ids)), tuple(f"c{id_}" for id_ in ids)
            )
            bound = lower_bound_query(
                replace(resolved, query=query, next_id=max(ids) + 1), self.engine.catalog
            )
            planned = plan_bound(
                bound, self.engine.reading_catalog, self.engine.statistics, restricting=False
            )
            executor, label = self.engine.executor, f"why {explainer.number} {name}"
            try:
                installed = executor.install(label, planned.plan, isolated=executor.tables.has_pending)
            except InternalError:  # maps over an installed loop's collections cannot read it
                installed = executor.install(label, planned.plan, isolated=True)
            self._resources.callback(executor.uninstall, installed)
            self._ranks[key] = installed.ranks()
        return self._ranks[key]


def find_prover(engine: Engine, name: str) -> Callable[[Any], Proof] | None:
    """Return the function that proves rows of a relation of a Datalog program, or None."""
    provers = (client.prover(name) for client in engine.dataflows.values())
    return next((candidate for candidate in provers if candidate is not None), None)


DEFAULT_SAMPLE: Final = 3
"""Default number of an aggregate's rows that are explained."""


def explain_row(engine: Engine, name: str, row: Any, *, sample: int | None = DEFAULT_SAMPLE) -> Proof:
    """Return a proof of a view's row. ``row`` is the whole row, or a dict of some of its columns.

    Raises ProgrammingError if there is no such row, or if several differ in the given columns.
    """
    entry = engine.catalog.get(name)
    with engine.interrupt, ExitStack() as resources:
        words = find_row(engine, entry, row)
        return ExplanationState(engine, sample, resources).proof(entry.name, words)


def explain_absence(engine: Engine, name: str, row: Any) -> Absence:
    """Explain why a view does not have a row. Raises ProgrammingError if it has the row."""
    entry = engine.catalog.get(name)
    with engine.interrupt, ExitStack() as resources:
        if find_rows(engine, entry, row).shape[1]:
            raise ProgrammingError(f"{entry.name} has such a row", hint="explain_row shows its derivation")
        positions, words, values = encode_row(engine, entry, row)
        names = [entry.schema.names[position] for position in positions]
        return _explain_absence(
            ExplanationState(engine, DEFAULT_SAMPLE, resources),
            entry,
            names,
            dict(zip(positions, words, strict=True)),
            values,
        )


def _explain_absence(
    state: ExplanationState,
    entry: Entry,
    names: Sequence[str],
    bound: dict[int, int],
    values: tuple[Any, ...],
) -> Absence:

    engine = state.engine
    text = format_row(entry.name, names, values)
    evaluator, ids = scan_relation(engine, entry)
    explainer = QueryExplainer(state, evaluator, -1)
    similar = nearest_rows(
        explainer, evaluator.resolved.query.node, {ids[position]: word for position, word in bound.items()}
    )
    types = [entry.schema.types[position] for position in bound]
    alternatives = dict.fromkeys(format_row(entry.name, names, state.values(row, types)) for row in similar)
    if not isinstance(entry, ViewEntry):
        return Absence(text, entry.name, values, (), tuple(alternatives)[:DEFAULT_SAMPLE])
    view_explainer = state.view_explainer(entry)
    failures = tuple(
        AbsenceExplainer(view_explainer, entry.text).query(view_explainer.evaluator.resolved.query, bound)
    )
    return Absence(text, entry.name, values, failures, tuple(alternatives)[:DEFAULT_SAMPLE])


def run_explain_row(engine: Engine, statement: ast.ExplainRow) -> Result:
    """Run EXPLAIN ROW: return the explanation as lines, or as JSON in one row."""
    entry = engine.catalog.get(statement.relation, statement.place)
    if engine.catalog.checks_privileges:
        for name in (entry.name, *sorted(engine.views.relations_under([entry.name]))):
            if name in engine.catalog:
                check_relation(engine.catalog, name)
    selected = _select_rows(engine, entry, statement)
    with engine.interrupt, ExitStack() as resources:
        rows = np.unique(selected, axis=1) if selected.shape[1] > 1 else selected
        if not rows.shape[1]:
            return _run_explain_absence(ExplanationState(engine, DEFAULT_SAMPLE, resources), entry, statement)
        row = tuple(rows[:, 0].tolist())
        proof = ExplanationState(engine, DEFAULT_SAMPLE, resources).proof(entry.name, row)
    if statement.as_json:
        return listing({"explanation": (JSON, [proof.to_json()])})
    more = rows.shape[1] - 1
    note = f"\n… and {more} more row{'' if more == 1 else 's'} like that" if more else ""
    return plan_result(proof.tree() + note, "explanation")


def external_proof(engine: Engine, name: str, row: tuple[int, ...]) -> Proof | None:
    """Return the proof of a row that a Datalog program reads, or None if it is not a SQL view's."""
    if not has_query(engine, name):
        return None
    with ExitStack() as resources:
        return ExplanationState(engine, DEFAULT_SAMPLE, resources).proof(name, row)


def _run_explain_absence(state: ExplanationState, entry: Entry, statement: ast.ExplainRow) -> Result:
    """Return why there is no such row. The statement must give all of its values."""
    if statement.where is not None or not has_query(state.engine, entry.name):
        raise ProgrammingError(f"{entry.name} has no such row", span=statement.span)
    engine, types = state.engine, entry.schema.types
    planned = plan(row_values_query(statement, types), engine.reading_catalog, engine.statistics)
    words = engine.run(planned)[0][:, 0].tolist()
    values = state.values(words, types)
    absence = _explain_absence(state, entry, entry.schema.names, dict(enumerate(words)), values)
    if statement.as_json:
        return listing({"explanation": (JSON, [json.dumps(absence.to_dict(), default=str)])})
    return plan_result(str(absence), "explanation")


def _select_rows(engine: Engine, entry: Entry, statement: ast.ExplainRow) -> Words:
    """Return the rows of a relation that the statement selects."""
    names = entry.schema.names
    if statement.where is None and len(statement.values) != len(names):
        raise ProgrammingError(
            f"{entry.name} has the columns {', '.join(names)}: {len(statement.values)} values do not fit",
            span=statement.span,
            hint="EXPLAIN ROW ... WHERE takes any condition",
        )
    catalog = engine.reading_catalog
    planned = plan(matching_rows_query(statement, entry.name, names), catalog, engine.statistics)
    return engine.run(planned)[0]


def find_row(engine: Engine, entry: Entry, row: Any) -> tuple[int, ...]:
    """Return the words of the selected row; of a table, with its rowid.

    Raises ProgrammingError unless there is exactly one.
    """
    rows = find_rows(engine, entry, row)
    names = entry.schema.names
    if not rows.shape[1]:
        values = row.values() if isinstance(row, Mapping) else row
        text = format_row(entry.name, tuple(row) if isinstance(row, Mapping) else names, tuple(values))
        raise ProgrammingError(f"there is no row {text}", hint="explain_absence shows the reason")
    if rows.shape[1] > 1 and isinstance(row, Mapping):
        raise ProgrammingError(
            f"{rows.shape[1]} rows of {entry.name} have these values",
            hint="give more columns, or the whole row",
        )
    return tuple(rows[:, 0].tolist())


def find_rows(engine: Engine, entry: Entry, row: Any) -> Words:
    """Return the distinct rows of a relation with the values of a row, or of a dict of some columns."""
    positions, words, _ = encode_row(engine, entry, row)
    evaluator, ids = scan_relation(engine, entry)
    bound = {ids[position]: word for position, word in zip(positions, words, strict=True)}
    node = evaluator.resolved.query.node
    return evaluator.rows(node, ids, bound, {})[0]


def encode_row(engine: Engine, entry: Entry, row: Any) -> tuple[list[int], list[int], tuple[Any, ...]]:
    """Return the positions of the given columns, with their words and values."""
    if isinstance(row, Mapping):
        positions = [_column_position(entry, name) for name in row]
        values = tuple(row.values())
    else:
        positions = list(range(len(entry.schema.columns)))
        values = tuple(row) if isinstance(row, Sequence) and not isinstance(row, str) else (row,)
    columns = tuple(replace(entry.schema.columns[position], nullable=True) for position in positions)
    if not positions:
        return [], [], ()
    return positions, from_rows([values], Schema(columns), engine.executor.dictionary)[:, 0].tolist(), values


def scan_relation(engine: Engine, entry: Entry) -> tuple[NodeEvaluator, list[int]]:
    """Return a query of the relation, and the ids of its columns."""
    text = f"select * from {quote_qualified_name(entry.name)}"
    evaluator = NodeEvaluator(engine, bind(parse_query(text), engine.reading_catalog))
    return evaluator, [column.index for column in evaluator.resolved.query.columns]


def has_query(engine: Engine, name: str) -> bool:
    """Return whether a relation is explained by a SQL query."""
    entry = engine.catalog.find(name)
    return isinstance(entry, ViewEntry) and bool(entry.sql) and find_prover(engine, entry.name) is None


def _column_position(entry: Entry, name: str) -> int:
    """Return the position of a column by its name, ignoring case."""
    names = [column.lower() for column in entry.schema.names]
    if name.lower() not in names:
        hint = did_you_mean(name, entry.schema.names)
        raise ProgrammingError(f'{entry.name} has no column "{name}"', hint=hint)
    return names.index(name.lower())
