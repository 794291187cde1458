"""The questions about one program's rows."""

from functools import partial
from typing import Any, Final

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.rules import core
from kpg.datalog.installing import GOAL, Relations
from kpg.datalog.planning import table_schema
from kpg.datalog.proof.absence import absence
from kpg.datalog.proof.bindings import Evaluator
from kpg.datalog.proof.build import Builder, Key
from kpg.datalog.proof.search import Search
from kpg.datalog.proof.store import Store
from kpg.datalog.proof.texts import Texts
from kpg.proof import Absence, Proof
from kpg.runtime.convert.callbacks import from_rows
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.why.asked import external_proof

MOST_ROWS: Final = 10_000_000
"""Rows that an explanation may look at unless it is allowed more."""
MADE_UP: Final = ("@", GOAL)


class Explainer:
    """Proofs over what a program has in the database, as of the last commit."""

    def __init__(self, installed: Relations) -> None:
        self.installed = installed
        self._program = installed.program
        self._evaluator = Evaluator(installed.engine.executor)
        self._texts = Texts(self._program, self._evaluator.dictionary)
        self._store = Store(installed, self._evaluator)

    def proof(self, name: str, row: Any, limit: int | None = None) -> Proof:
        """Why the row holds; ProgrammingError if it does not, OperationalError beyond ``limit`` rows."""
        key = self._key(name, row)
        builder = self._builder(limit)
        if not builder.holds(key):
            raise ProgrammingError(
                f"{self._texts.atom(*key)} does not hold", hint="explain_absence tells what it lacks"
            )
        return builder.proof(key)

    def absence(self, name: str, row: Any, limit: int | None = None) -> Absence:
        """Why the row does not hold; ProgrammingError if it does, OperationalError beyond ``limit`` rows."""
        key = self._key(name, row)
        builder = self._builder(limit)
        if builder.holds(key):
            raise ProgrammingError(f"{self._texts.atom(*key)} holds", hint="explain_row tells why")
        return absence(builder.search, self._texts, *key)

    def explanation(self, goal: core.Goal, limit: int | None = None) -> Proof | Absence:
        """Why the row that a goal of constants asks for holds, or why not; InterfaceError for other goals."""
        terms = [term for term in goal.terms if isinstance(term, core.Constant)]
        if len(terms) < len(goal.terms) or goal.relation.startswith(GOAL):
            hint = "give one atom with constants: tc(1, 9)"
            raise InterfaceError("only a row of one relation can be explained", hint=hint)
        row = tuple(self._evaluator.constant(term) for term in terms)
        key = goal.relation, row or (0,)
        builder = self._builder(limit)
        return builder.proof(key) if builder.holds(key) else absence(builder.search, self._texts, *key)

    def _key(self, name: str, row: Any) -> Key:
        relations = self._program.relations
        if name not in relations or name.startswith(MADE_UP):
            known = [one for one in relations if not one.startswith(MADE_UP)]
            raise ProgrammingError(f"the program has no relation {name}", hint=did_you_mean(name, known))
        relation = relations[name]
        row = row if relation.columns or row != () else (0,)
        return name, self._words(relation, row)

    def _words(self, relation: core.Relation, row: Any) -> tuple[int, ...]:
        words = from_rows([row], table_schema(relation), self._evaluator.dictionary)
        return tuple(words[:, 0].tolist())

    def _builder(self, limit: int | None) -> Builder:
        self.installed.engine.transactions.check()
        if not self._store.is_current:
            self._store = Store(self.installed, self._evaluator)
        most = MOST_ROWS if limit is None else limit
        search = Search(self._program, self._store, self._evaluator, most)
        explained = partial(external_proof, self.installed.engine)
        return Builder(search, self._texts, self.installed.lowering.strata, explained)
