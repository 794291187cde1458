"""``Program``: the handle of an installed program, with the source texts that can reinstall it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kpg.api.result import Result, Rows
from kpg.api.view import View
from kpg.compiler.algebra.text import rel_text
from kpg.compiler.catalog.entries import RELATIONS, did_you_mean
from kpg.compiler.datalog.check import CheckedProgram, check, read_file
from kpg.compiler.datalog.core_program import BASE_SUFFIX
from kpg.compiler.datalog.preprocessor import Setting
from kpg.compiler.datalog.types.declarations import io_kind
from kpg.compiler.explain import explain_plan
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.rules import core
from kpg.compiler.rules.core import rule_text
from kpg.datalog import facts
from kpg.datalog.goal import Goal
from kpg.datalog.goal_dataflow import BindingPattern
from kpg.datalog.goal_plan import QueryForm
from kpg.datalog.installation import GOAL_PREFIX, ProgramRelations, initial_rows
from kpg.datalog.privileges import (
    assign_ownership,
    check_owner,
    check_program,
    check_read,
    check_updates,
    hide_other_texts,
    may_see_text,
    owner_of,
)
from kpg.datalog.program_plans import definition, locate_error, plan_relation, plan_scan
from kpg.datalog.proof import Absence, Explainer, Proof
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, DatalogError, Diagnostic, InterfaceError, ProgrammingError
from kpg.runtime.monitor import synchronized
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.notification_queue import Notification

Pairs = tuple[tuple[str, str], ...]
ProgramText = tuple[str, str, tuple[str, ...], Pairs, Pairs, Pairs]
"""A text, its file name, include folders, macros, the included files, and import paths of functors."""


class IncludeReader:
    """Reads included files and records their contents, or replays recorded contents."""

    def __init__(self, recorded: Iterable[tuple[str, str]] | None = None) -> None:
        self._recorded = None if recorded is None else dict(recorded)
        self._contents: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if self._recorded is None:
            self._contents[path] = read_file(path)
            return self._contents[path]
        if path not in self._recorded:
            raise FileNotFoundError(path)
        return self._recorded[path]

    def program_text(
        self,
        text: str,
        filename: str | None,
        setting: Setting | None = None,
        functors: Mapping[str, str] | None = None,
    ) -> ProgramText:
        """Return a text that was read with this reader. ``functors`` has the import paths of functors."""
        setting, import_paths = setting or Setting(), tuple((functors or {}).items())
        return (
            text,
            filename or "",
            setting.folders,
            setting.macros,
            tuple(self._contents.items()),
            import_paths,
        )


PUBLIC_NAMES: Final = (
    *("drop", "explain", "explain_absence", "explain_row", "extend", "goals", "label", "prepare", "query"),
    *("relations", "rows", "update", "warnings"),
)
"""Public methods and properties of a program. The others are for the engine."""


@synchronized("notifications", "place", "pull", "retire")
class Program:
    """A Datalog program that is installed in a database, until it is dropped.

    Its inputs are tables and its derived relations are views. Its outputs are materialized from the
    start, other views when they are first read here or by ``Database.view``. As a context manager it
    drops itself.
    """

    def __init__(
        self, engine: Engine, label: str, checked: CheckedProgram, check_database: Callable[[], None]
    ) -> None:
        self._monitor = engine.monitor
        self.engine = engine
        self.label = label
        self.checked = checked
        self.installation = ProgramRelations(engine, label, checked.program)
        self.texts: tuple[ProgramText, ...] = ()
        """The program's own text, then the texts that extended it."""
        self.goals: tuple[Goal, ...] = ()
        """The goals of the program's text, in its order."""
        self._check_database = check_database
        self._forms: dict[BindingPattern, QueryForm] = {}
        self._explainer: Explainer | None = None
        self._form_count = 0
        self._is_installed = True

    def __repr__(self) -> str:
        asks = f", {len(self.goals)} to ask: program.goals[0]()" if self._is_installed and self.goals else ""
        return f"<{self.label}{asks if self._is_installed else ', dropped'}>"

    def __dir__(self) -> list[str]:
        return list(PUBLIC_NAMES)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the program's tables and views."""
        return (*self.installation.tables, *self.installation.views)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the checks."""
        return self.checked.warnings

    @property
    def takes_commands(self) -> bool:
        """Whether the facts of a relation come from commands, as with FlowLog's ``IO="command"``."""
        return any(io_kind(transfer.options) == "command" for transfer in self.checked.program.transfers)

    def __contains__(self, name: str) -> bool:
        return name in self.relations

    def __getitem__(self, name: str) -> View:
        """Return a derived relation as a materialized view.

        Raises ProgrammingError if there is none of that name.
        """
        self.check()
        self.check_read(name)
        if name in self.installation.tables:
            raise ProgrammingError(
                f'"{name}" is a table', hint=f"read it with SQL: SELECT * FROM {quote_qualified_name(name)}"
            )
        if name not in self.installation.views:
            hint = did_you_mean(name, self.installation.views)
            raise ProgrammingError(f"{self.label} has no relation {name}", hint=hint)
        if not self.installation.has_view(name):
            raise ProgrammingError(f"relation {name} of {self.label} was dropped or replaced")
        if name not in self.installation.materialized:
            self.installation.materialize(name)
            for form in self._forms.values():
                form.use_materialized(self.installation.materialized)
        explain = partial(self.explain, name)
        return View(self.engine.views[name], self._monitor, self._check_database, explain)

    def rows(self, name: str) -> Rows:
        """Return the rows of a relation: a copy of a table, or the view itself."""
        if name in self.installation.views:
            return self[name]
        self.check()
        self.check_read(name)
        return self.engine.select(plan_scan(self.engine, name))

    def explain(self, name: str, stage: str = "physical") -> str:
        """Return how a derived relation is computed.

        The stage is ``rules``, ``logical`` for their relational algebra, or ``physical`` for the plan.
        """
        self.check()
        self.check_read(name)
        lowering = self.installation.lowering_of(name)
        program = lowering.program
        if name not in self.installation.views:
            raise ProgrammingError(f"{self.label} derives no relation {name}")
        if stage == "rules":
            generated = program.relations.keys() - self.checked.program.relations.keys()
            rules = (rule for rule in program.rules if rule.head.relation in {name, *generated})
            return "\n".join(rule_text(rule, program.relations[rule.head.relation]) for rule in rules)
        rel = definition(lowering, name, self.engine.catalog, frozenset())
        if stage == "logical":
            return rel_text(rel).rstrip("\n")
        if stage != "physical":
            raise InterfaceError(f'there is no stage "{stage}"', hint="rules, logical or physical")
        plan = plan_relation(self.engine, program.relations[name], rel, self.engine.catalog).plan
        return explain_plan(plan, self.engine.catalog).rstrip("\n")

    def explain_row(self, name: str, row: Any, *, limit: int | None = None) -> Proof:
        """Return a proof of a row of one of the program's relations: see ``Database.explain_row``."""
        self.check_read(name, recursive=True)
        return self.explainer.proof(name, row, limit)

    def explain_absence(self, name: str, row: Any, *, limit: int | None = None) -> Absence:
        """Explain why a row does not hold: see ``Database.explain_absence``."""
        self.check_read(name, recursive=True)
        return self.explainer.absence(name, row, limit)

    def explain_atom(self, text: str) -> Proof | Absence:
        """Explain why an atom of constants, such as ``tc(1, 9)``, holds or does not hold."""
        checked = self._check_addition(f"?- {text.rstrip().removesuffix('.')}.", "goals")
        if len(checked.program.goals) != 1:
            raise InterfaceError(f"the text has {len(checked.program.goals)} atoms, not one")
        check_read(self.engine.catalog, checked.program, checked.program.goals[0].relation, recursive=True)
        return self.explainer.explanation(checked.program.goals[0])

    @property
    def explainer(self) -> Explainer:
        """The explainer of this program's rows."""
        self.check()
        if self._explainer is None or self._explainer.installation is not self.installation:
            self._explainer = Explainer(self.installation)
        return self._explainer

    # Updates

    def update(self, text: str, /, **values: Any) -> int:
        """Run updates, ``+edge(1, 2). -edge(2, 3).``, in one transaction. Returns the number of changed rows.

        Inserting an existing fact and deleting an absent one change nothing. ``values`` are those of
        parameters, as in ``+edge($a, $b).``
        """
        self.check()
        return self.run_updates(self._check_addition(text, "updates").program, values)

    def run_updates(self, program: core.Program, values: Mapping[str, Any]) -> int:
        """Run the updates of a text that was checked against this program. Returns the number of changed
        rows.
        """
        if not program.updates:
            return 0
        check_updates(self.engine.catalog, program)
        with self.engine.transactions.statement(changes=True):
            tables = {update.relation: self._updated_table(update) for update in program.updates}
            return facts.apply_updates(program, tables, values, self.dictionary)

    def add(self, text: str) -> int | None:
        """Run the updates of a text and add its goals to ``goals``.

        Returns the number of changed rows, or None if the text has no updates.
        """
        self.check()
        return self.run_checked(self.check_text(text))

    def check_text(
        self, text: str, filename: str | None = None, read: Callable[[str], str] | None = None
    ) -> CheckedProgram:
        """Check a text as an addition to the program. The text's names mean the program's relations."""
        catalog = self.engine.catalog.copy()
        found = (catalog.find(name) for name in self.relations)
        catalog.apply(*(RELATIONS.remove(entry.name.lower()) for entry in found if entry is not None))
        try:
            return check(text, catalog, file=filename or "", read=read, base=self.checked)
        except DatalogError as error:
            if may_see_text(self.engine.catalog, self.checked.program):
                raise
            raise hide_other_texts(error, text) from None

    def run_checked(self, checked: CheckedProgram) -> int | None:
        """Run a text that was checked against this program, as :meth:`add` does."""
        changed = self.run_updates(checked.program, {})
        self.goals += tuple(self.goal(checked.program, goal) for goal in checked.program.goals)
        return changed if checked.program.updates else None

    def drop_goals(self) -> None:
        """Drop the goals of the text."""
        for goal in self.goals:
            goal.drop()
        self.goals = ()

    def _updated_table(self, update: core.Update) -> Table:
        name = update.relation
        if name in self.installation.tables or name not in self.checked.program.relations:
            if name in self.engine.catalog:
                return self.engine.table(name)
        elif self.checked.program.relations[name].kind is core.Kind.EXTERNAL:
            return self.engine.table(name)
        plain_name = name.removesuffix(BASE_SUFFIX)
        hint = f"declare .input {plain_name}, and it can have facts too"
        raise ProgrammingError(
            f"{plain_name} has rules, its facts cannot be changed", span=update.span, hint=hint
        )

    def _check_addition(self, text: str, allowed: str) -> CheckedProgram:
        """Check a text that must consist of goals or of updates alone."""
        checked = self.check_text(text)
        other = checked.program.goals if allowed == "updates" else checked.program.updates
        if other or len(checked.statements) > len(self.checked.statements):
            raise InterfaceError(
                f"the text may only have {allowed}", hint="install more rules with db.datalog()"
            )
        return checked

    # Goals

    def prepare(self, text: str) -> Goal:
        """Return a prepared goal, such as ``?- tc($src, x).``.

        Raises InterfaceError unless the text is one goal.
        """
        self.check()
        checked = self._check_addition(text, "goals")
        if len(checked.program.goals) != 1:
            raise InterfaceError(f"the text has {len(checked.program.goals)} goals, not one")
        return self.goal(checked.program, checked.program.goals[0])

    def query(self, text: str, /, **values: Any) -> Result:
        """Return the answer to a goal, without preparing it."""
        with self.prepare(text) as goal:
            return goal(**values)

    def goal(self, program: core.Program, goal: core.Goal) -> Goal:
        """Return a goal of a text that was checked against this program."""
        check_read(self.engine.catalog, program, goal.relation)
        is_bound = tuple(isinstance(term, core.Constant | core.Parameter) for term in goal.terms)
        goal_rules: tuple[core.Rule, ...] = ()
        if goal.relation.startswith(GOAL_PREFIX):
            goal_rules = tuple(rule for rule in program.rules if rule.head.relation == goal.relation)
        return Goal(
            self, program, goal, self._form(BindingPattern(program, goal.relation, is_bound, goal_rules))
        )

    def prepare_declared_goals(self) -> None:
        """Prepare the goals of the program's text and the forms of its ``.query`` directives."""
        self.goals = tuple(self.goal(self.checked.program, goal) for goal in self.checked.program.goals)
        for query in self.checked.program.queries:
            self.prepare_form(query)

    def prepare_form(self, query: core.Query) -> None:
        """Prepare the query form of a directive such as ``.query p(b, f)``."""
        self._form(BindingPattern(self.checked.program, query.relation, query.bound)).users += 1

    def _form(self, pattern: BindingPattern) -> QueryForm:
        form = self._forms.get(pattern)
        if form is None or form.closed:
            self.engine.transactions.check_not_failed()
            self._form_count += 1
            name = f"{self.label}/goal {self._form_count}"
            form = QueryForm(self.engine, name, pattern, self.installation.materialized)
            self._forms[pattern] = form
        return form

    def release(self, form: QueryForm) -> None:
        """Remove one user of a query form, and drop the form if it has no other."""
        form.users -= 1
        if form.users == 0 and not form.closed:
            self._forms = {key: other for key, other in self._forms.items() if other is not form}
            form.drop()

    # Changes of the whole program

    def extend(self, text: str, *, filename: str | None = None) -> None:
        """Add rules, facts and declarations. Facts that have changed since installation stay as they are.

        Everything is derived again, and prepared goals are dropped. Atomic, as ``Database.datalog`` is.
        """
        with self.engine.single_commit():
            self._extend(text, filename)

    def _extend(self, text: str, filename: str | None) -> None:
        self.check()
        self.check_unused()
        catalog = self.engine.catalog
        check_owner(catalog, self.relations)
        reading = IncludeReader()
        checked = self.check_text(text, filename, reading)
        check_program(catalog, checked, self.checked, loads=False)
        with assign_ownership(self.engine):
            self._replace(text, filename, reading, checked)

    def _replace(
        self, text: str, filename: str | None, reading: IncludeReader, checked: CheckedProgram
    ) -> None:
        before, rows, texts = self.checked, self.installation.contents(), self.texts
        if texts:
            self.texts = (*texts, reading.program_text(text, filename))
        added = initial_rows(rows, before.program, checked.program, self.dictionary)
        owner = owner_of(self.engine.catalog, self.relations)
        self.drop_forms()
        self.installation.remove()
        try:
            self._install(checked, added, owner)
        except BaseException:
            self._install(before, rows, owner)
            self.texts = texts
            raise

    def _install(self, checked: CheckedProgram, rows: Mapping[str, facts.Words], owner: str | None) -> None:
        self.checked = checked
        self.installation = ProgramRelations(self.engine, self.label, checked.program)
        self.installation.add(rows, None, owner)
        self.engine.dataflows[self.label] = self

    def drop_forms(self) -> None:
        """Drop all goals and query forms."""
        for form in self._forms.values():
            form.drop()
        self._forms.clear()
        self.goals = ()

    def drop(self) -> None:
        """Remove the program from the database, with its tables, views and goals. Dropping twice is allowed.

        Raises ProgrammingError, with nothing dropped, if a view or another program uses one of its
        relations.
        """
        if not self._is_installed:
            return
        self.engine.swap_in_default()
        self.engine.refuse_in_transaction("dropping a Datalog program")
        self.check_unused()
        check_owner(self.engine.catalog, self.relations)
        with self.engine.single_commit(), assign_ownership(self.engine):
            self.drop_forms()
            self.installation.remove()
            self._is_installed = False

    def check_unused(self) -> None:
        """Raise ProgrammingError if another view or program uses one of the program's relations."""
        own_names = {self.label, *self.relations, *(form.name for form in self._forms.values())}
        for name in self.relations:
            users = [user for user in self.engine.views.dependents(name) if user not in own_names]
            if users and (name in self.installation.tables or self.installation.has_view(name)):
                hint = f'drop "{users[0]}" first'
                raise ProgrammingError(
                    f'{self.label} cannot be dropped: "{users[0]}" uses "{name}"', hint=hint
                )

    def check_read(self, name: str, *, recursive: bool = False) -> None:
        """Raise PrivilegeError unless the current role may read a relation.

        With ``recursive``, also the relations that it is derived from.
        """
        self.check()
        if name in self.relations:
            check_read(self.engine.catalog, self.checked.program, name, recursive=recursive)

    def check(self) -> None:
        """Raise InterfaceError if the program was dropped or its database closed."""
        self._check_database()
        self.engine.swap_in_default()
        if not self._is_installed:
            raise InterfaceError(f"{self.label} was dropped", hint="install it again with db.datalog()")

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the database."""
        return self.engine.executor.dictionary

    def pull(self) -> None:
        """Do nothing: a program has no inputs of its own."""

    def notifications(self) -> Iterator[Notification]:
        """Return no notifications: query forms notify the subscribers of goals."""
        return iter(())

    def retire(self) -> None:
        """Do nothing: tables can always change."""

    def prover(self, name: str) -> Callable[[Any], Proof] | None:
        """Return the function that proves rows of a relation, or None if the program does not derive it."""
        return partial(self.explain_row, name) if name in self.installation.views else None

    def locate_error(self, error: DataError) -> None:
        """Add the position in the program's text to an error of one of its rules."""
        if may_see_text(self.engine.catalog, self.checked.program):
            locate_error(error, self.checked.program)
