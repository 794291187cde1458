"""``Program``: the handle of an installed program, with the source texts that can reinstall it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kpg.api.result import Result, Rows
from kpg.api.view import View
from kpg.compiler.algebra.text import rel_text
from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.datalog.check import Checked, check, read_file
from kpg.compiler.datalog.core_program import BASE
from kpg.compiler.datalog.preprocessor import Setting
from kpg.compiler.datalog.types.declarations import kind_of
from kpg.compiler.explain import explain_plan
from kpg.compiler.qualified_names import written
from kpg.compiler.rules import core
from kpg.compiler.rules.core import rule_text
from kpg.datalog import facts
from kpg.datalog.goal import Goal
from kpg.datalog.goal_dataflow import Question
from kpg.datalog.goal_plan import QueryForm
from kpg.datalog.installation import GOAL, Relations, carried
from kpg.datalog.privileges import (
    check_owner,
    check_program,
    check_read,
    check_updates,
    owner_of,
    owning,
    shows_text,
    without_texts,
)
from kpg.datalog.program_plans import definition, place, plan_rows, planned
from kpg.datalog.proof import Absence, Explainer, Proof
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, DatalogError, Diagnostic, InterfaceError, ProgrammingError
from kpg.runtime.monitor import synchronized
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.notification_queue import Notification

Pairs = tuple[tuple[str, str], ...]
Text = tuple[str, str, tuple[str, ...], Pairs, Pairs, Pairs]
"""A text, the name of its file, folders and macros, the files that it included, and where functors are."""


class Reading:
    """Reads files and remembers what was in them; or gives what was remembered."""

    def __init__(self, known: Iterable[tuple[str, str]] | None = None) -> None:
        self._known = None if known is None else dict(known)
        self._read: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if self._known is None:
            self._read[path] = read_file(path)
            return self._read[path]
        if path not in self._known:
            raise FileNotFoundError(path)
        return self._known[path]

    def text(
        self,
        text: str,
        filename: str | None,
        setting: Setting | None = None,
        functors: Mapping[str, str] | None = None,
    ) -> Text:
        """A text that was read with this; ``functors`` are where they can be imported from."""
        setting, places = setting or Setting(), tuple((functors or {}).items())
        return (text, filename or "", setting.folders, setting.macros, tuple(self._read.items()), places)


USED: Final = (
    *("drop", "explain", "explain_absence", "explain_row", "extend", "goals", "label", "prepare", "query"),
    *("relations", "rows", "update", "warnings"),
)
"""What users call of a program; the rest is for kpg's own parts."""


@synchronized("notifications", "place", "pull", "retire")
class Program:
    """A Datalog program that is part of a database, until it is dropped.

    Its inputs are tables, its derived relations views; those that it outputs are maintained from the start,
    the others from when they are first read here or by ``Database.view``. As a context manager it drops
    itself.
    """

    def __init__(
        self, engine: Engine, label: str, checked: Checked, check_database: Callable[[], None]
    ) -> None:
        self._monitor = engine.monitor
        self.engine = engine
        self.label = label
        self.checked = checked
        self.installed = Relations(engine, label, checked.program)
        self.texts: tuple[Text, ...] = ()
        """What it is made of: its own text, then those that extended it."""
        self.goals: tuple[Goal, ...] = ()
        """Those of the program's text, in its order."""
        self._check_database = check_database
        self._forms: dict[Question, QueryForm] = {}
        self._explainer: Explainer | None = None
        self._made = 0
        self._live = True

    def __repr__(self) -> str:
        asks = f", {len(self.goals)} to ask: program.goals[0]()" if self._live and self.goals else ""
        return f"<{self.label}{asks if self._live else ', dropped'}>"

    def __dir__(self) -> list[str]:
        return list(USED)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the tables and views that the program has made."""
        return (*self.installed.tables, *self.installed.views)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is suspicious about the program."""
        return self.checked.warnings

    @property
    def takes_commands(self) -> bool:
        """Whether a relation's facts come by commands, as FlowLog's ``IO="command"`` has it."""
        return any(kind_of(one.options) == "command" for one in self.checked.program.transfers)

    def __contains__(self, name: str) -> bool:
        return name in self.relations

    def __getitem__(self, name: str) -> View:
        """A derived relation as a maintained view; ProgrammingError if there is none of that name."""
        self.check()
        self.check_read(name)
        if name in self.installed.tables:
            raise ProgrammingError(
                f'"{name}" is a table', hint=f"read it with SQL: SELECT * FROM {written(name)}"
            )
        if name not in self.installed.views:
            hint = did_you_mean(name, self.installed.views)
            raise ProgrammingError(f"{self.label} has no relation {name}", hint=hint)
        if not self.installed.is_there(name):
            raise ProgrammingError(f"relation {name} of {self.label} was dropped or replaced")
        if name not in self.installed.kept:
            self.installed.keep(name)
            for form in self._forms.values():
                form.look_up(self.installed.kept)
        explain = partial(self.explain, name)
        return View(self.engine.views[name], self._monitor, self._check_database, explain)

    def rows(self, name: str) -> Rows:
        """The rows of any of the program's relations: of a table a copy, of a view the view."""
        if name in self.installed.views:
            return self[name]
        self.check()
        self.check_read(name)
        return self.engine.select(plan_rows(self.engine, name))

    def explain(self, name: str, stage: str = "physical") -> str:
        """How a derived relation is computed: its ``rules``, their algebra (``logical``) or its plan."""
        self.check()
        self.check_read(name)
        lowering = self.installed.lowering_of(name)
        program = lowering.program
        if name not in self.installed.views:
            raise ProgrammingError(f"{self.label} derives no relation {name}")
        if stage == "rules":
            made = program.relations.keys() - self.checked.program.relations.keys()
            rules = (one for one in program.rules if one.head.relation in {name, *made})
            return "\n".join(rule_text(one, program.relations[one.head.relation]) for one in rules)
        rel = definition(lowering, name, self.engine.catalog, frozenset())
        if stage == "logical":
            return rel_text(rel).rstrip("\n")
        if stage != "physical":
            raise InterfaceError(f'there is no stage "{stage}"', hint="rules, logical or physical")
        plan = planned(self.engine, program.relations[name], rel, self.engine.catalog).plan
        return explain_plan(plan, self.engine.catalog).rstrip("\n")

    def explain_row(self, name: str, row: Any, *, limit: int | None = None) -> Proof:
        """A proof of a row of one of the program's relations: see ``Database.explain_row``."""
        self.check_read(name, wholly=True)
        return self.explainer.proof(name, row, limit)

    def explain_absence(self, name: str, row: Any, *, limit: int | None = None) -> Absence:
        """Why a row does not hold: see ``Database.explain_absence``."""
        self.check_read(name, wholly=True)
        return self.explainer.absence(name, row, limit)

    def explain_atom(self, text: str) -> Proof | Absence:
        """Why an atom of constants, ``tc(1, 9)``, holds, or why it does not."""
        found = self._added(f"?- {text.rstrip().removesuffix('.')}.", "goals")
        if len(found.program.goals) != 1:
            raise InterfaceError(f"the text has {len(found.program.goals)} atoms, not one")
        check_read(self.engine.catalog, found.program, found.program.goals[0].relation, wholly=True)
        return self.explainer.explanation(found.program.goals[0])

    @property
    def explainer(self) -> Explainer:
        """What answers questions about rows."""
        self.check()
        if self._explainer is None or self._explainer.installed is not self.installed:
            self._explainer = Explainer(self.installed)
        return self._explainer

    # Updates

    def update(self, text: str, /, **values: Any) -> int:
        """Run updates, ``+edge(1, 2). -edge(2, 3).``, as one transaction; how many rows came or went.

        A fact that is there is not inserted again, and deleting one that is absent is no error. ``values``
        are those of parameters, ``+edge($a, $b).``
        """
        self.check()
        return self.run_updates(self._added(text, "updates").program, values)

    def run_updates(self, program: core.Program, values: Mapping[str, Any]) -> int:
        """Run the updates of a text that was checked after this program."""
        if not program.updates:
            return 0
        check_updates(self.engine.catalog, program)
        with self.engine.transactions.statement(changes=True):
            tables = {one.relation: self._table(one) for one in program.updates}
            return facts.apply(program, tables, values, self.dictionary)

    def add(self, text: str) -> int | None:
        """Run a text of updates and goals: the goals are added to ``goals``. How many rows came or went.

        None if there are no updates in it.
        """
        self.check()
        return self.run_added(self.with_program(text))

    def with_program(
        self, text: str, filename: str | None = None, read: Callable[[str], str] | None = None
    ) -> Checked:
        """A text checked as an addition to the program, whose names mean its own relations."""
        catalog = self.engine.catalog.copy()
        for name in self.relations:
            if name in catalog:
                catalog.remove(name)
        try:
            return check(text, catalog, file=filename or "", read=read, after=self.checked)
        except DatalogError as error:
            if shows_text(self.engine.catalog, self.checked.program):
                raise
            raise without_texts(error, text) from None

    def run_added(self, checked: Checked) -> int | None:
        """As :meth:`add` for a text that was checked after this program."""
        changed = self.run_updates(checked.program, {})
        self.goals += tuple(self.goal(checked.program, goal) for goal in checked.program.goals)
        return changed if checked.program.updates else None

    def drop_goals(self) -> None:
        """Drop the goals of the text."""
        for goal in self.goals:
            goal.drop()
        self.goals = ()

    def _table(self, update: core.Update) -> Table:
        name = update.relation
        if name in self.installed.tables or name not in self.checked.program.relations:
            if name in self.engine.catalog:
                return self.engine.table(name)
        elif self.checked.program.relations[name].kind is core.Kind.EXTERNAL:
            return self.engine.table(name)
        shown = name.removesuffix(BASE)
        hint = f"declare .input {shown}, and it can have facts too"
        raise ProgrammingError(f"{shown} has rules, its facts cannot be changed", span=update.span, hint=hint)

    def _added(self, text: str, what: str) -> Checked:
        """A text of goals or updates checked with the program; nothing else may be in it."""
        found = self.with_program(text)
        other = found.program.goals if what == "updates" else found.program.updates
        if other or len(found.statements) > len(self.checked.statements):
            raise InterfaceError(
                f"the text may only have {what}", hint="install more rules with db.datalog()"
            )
        return found

    # Goals

    def prepare(self, text: str) -> Goal:
        """A goal, ``?- tc($src, x).``, ready to be asked; InterfaceError unless the text is one goal."""
        self.check()
        checked = self._added(text, "goals")
        if len(checked.program.goals) != 1:
            raise InterfaceError(f"the text has {len(checked.program.goals)} goals, not one")
        return self.goal(checked.program, checked.program.goals[0])

    def query(self, text: str, /, **values: Any) -> Result:
        """The answer to a goal that is asked once."""
        with self.prepare(text) as goal:
            return goal(**values)

    def goal(self, program: core.Program, goal: core.Goal) -> Goal:
        """A goal of a text that was checked after this program."""
        check_read(self.engine.catalog, program, goal.relation)
        given = tuple(isinstance(term, core.Constant | core.Parameter) for term in goal.terms)
        own: tuple[core.Rule, ...] = ()
        if goal.relation.startswith(GOAL):
            own = tuple(rule for rule in program.rules if rule.head.relation == goal.relation)
        return Goal(self, program, goal, self._form(Question(program, goal.relation, given, own)))

    def get_ready(self) -> None:
        """Have the goals of the text, and what it says is asked, be there."""
        self.goals = tuple(self.goal(self.checked.program, goal) for goal in self.checked.program.goals)
        for query in self.checked.program.queries:
            self.keep_ready(query)

    def keep_ready(self, query: core.Query) -> None:
        """``.query p(b, f)``: have the dataflow there before somebody asks that way."""
        self._form(Question(self.checked.program, query.relation, query.bound)).users += 1

    def _form(self, question: Question) -> QueryForm:
        form = self._forms.get(question)
        if form is None or form.closed:
            self.engine.transactions.check()
            self._made += 1
            name = f"{self.label}/goal {self._made}"
            form = QueryForm(self.engine, name, question, self.installed.kept)
            self._forms[question] = form
        return form

    def release(self, form: QueryForm) -> None:
        """A goal was dropped: the last one takes the dataflow with it."""
        form.users -= 1
        if form.users == 0 and not form.closed:
            self._forms = {key: one for key, one in self._forms.items() if one is not form}
            form.drop()

    # The program as a whole

    def extend(self, text: str, *, filename: str | None = None) -> None:
        """Add rules, facts and declarations; facts that were changed meanwhile stay as they are.

        Everything is derived anew, and prepared goals are dropped. All or nothing, as ``Database.datalog``.
        """
        with self.engine.held():
            self._extend(text, filename)

    def _extend(self, text: str, filename: str | None) -> None:
        self.check()
        self.refuse_used()
        catalog = self.engine.catalog
        check_owner(catalog, self.relations)
        reading = Reading()
        found = self.with_program(text, filename, reading)
        check_program(catalog, found, self.checked, loads=False)
        with owning(self.engine):
            self._replace(text, filename, reading, found)

    def _replace(self, text: str, filename: str | None, reading: Reading, found: Checked) -> None:
        before, rows, texts = self.checked, self.installed.contents(), self.texts
        if texts:
            self.texts = (*texts, reading.text(text, filename))
        added = carried(rows, before.program, found.program, self.dictionary)
        owner = owner_of(self.engine.catalog, self.relations)
        self.close_goals()
        self.installed.remove()
        try:
            self._install(found, added, owner)
        except BaseException:
            self._install(before, rows, owner)
            self.texts = texts
            raise

    def _install(self, checked: Checked, rows: Mapping[str, facts.Words], owner: str | None) -> None:
        self.checked = checked
        self.installed = Relations(self.engine, self.label, checked.program)
        self.installed.add(rows, None, owner)
        self.engine.dataflows[self.label] = self

    def close_goals(self) -> None:
        """Give all goals up."""
        for form in self._forms.values():
            form.drop()
        self._forms.clear()
        self.goals = ()

    def drop(self) -> None:
        """Take the program out of the database, with its tables, views and goals. Twice is allowed.

        Raises ProgrammingError, with nothing dropped, if a view or another program uses one of its relations.
        """
        if not self._live:
            return
        self.engine.admit_owner()
        self.engine.refuse_in_transaction("dropping a Datalog program")
        self.refuse_used()
        check_owner(self.engine.catalog, self.relations)
        with self.engine.held(), owning(self.engine):
            self.close_goals()
            self.installed.remove()
            self._live = False

    def refuse_used(self) -> None:
        """Raise ProgrammingError if somebody else uses one of the program's relations."""
        own = {self.label, *self.relations, *(form.name for form in self._forms.values())}
        for name in self.relations:
            users = [one for one in self.engine.views.dependents(name) if one not in own]
            if users and (name in self.installed.tables or self.installed.is_there(name)):
                hint = f'drop "{users[0]}" first'
                raise ProgrammingError(
                    f'{self.label} cannot be dropped: "{users[0]}" uses "{name}"', hint=hint
                )

    def check_read(self, name: str, *, wholly: bool = False) -> None:
        """Raise PrivilegeError unless the role may read a relation; ``wholly``: what it comes from, too."""
        self.check()
        if name in self.relations:
            check_read(self.engine.catalog, self.checked.program, name, wholly=wholly)

    def check(self) -> None:
        """Raise InterfaceError if the program was dropped, or its database closed."""
        self._check_database()
        self.engine.admit_owner()
        if not self._live:
            raise InterfaceError(f"{self.label} was dropped", hint="install it again with db.datalog()")

    @property
    def dictionary(self) -> Dictionary:
        """Where the database keeps its strings."""
        return self.engine.executor.dictionary

    def pull(self) -> None:
        """A program has no inputs of its own clock."""

    def notifications(self) -> Iterator[Notification]:
        """Nobody is told of a commit here: those who follow goals are told by the goals' query forms."""
        return iter(())

    def retire(self) -> None:
        """Tables can always change."""

    def prover(self, name: str) -> Callable[[Any], Proof] | None:
        """What proves rows of a relation; None for one that the program does not derive."""
        return partial(self.explain_row, name) if name in self.installed.views else None

    def place(self, error: DataError) -> None:
        """An operation of a rule that failed is in the program's text."""
        if shows_text(self.engine.catalog, self.checked.program):
            place(error, self.checked.program)
