"""A query's recursion restricted to what the query asks of it, or left as it is, with the reason."""

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.lets import let_values
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns
from kpg.compiler.algebra.traverse import children, free_locals, with_children
from kpg.compiler.demand.asking import Asking, Declined
from kpg.compiler.demand.bodies import NotRules, is_negative
from kpg.compiler.demand.failing import may_fail
from kpg.compiler.demand.hoist import hoisted
from kpg.compiler.demand.joins import Link, links, values
from kpg.compiler.demand.notes import Note, Restricted
from kpg.compiler.demand.rules import Definitions, rules_of
from kpg.compiler.demand.seeds import constants
from kpg.compiler.passes import PLACING, run
from kpg.compiler.physical.estimate import Sizes
from kpg.compiler.statistics import Statistics
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar

FRACTION: Final = 0.25
"""What a join gives is asked for if it is at most this share of what the recursion reads."""


def restrict(rel: Rel, statistics: Statistics) -> Restricted:
    """The query with its recursive relations computed for what is asked of them, by magic sets.

    What is asked are constants that filters give, and few values that other inputs of a join give.
    """
    moved = hoisted(rel)
    for step in run(moved, PLACING):
        moved = step.rel
    moved = hoisted(moved)
    sizes = Sizes(statistics, Facts(let_values(moved)))
    rewriting = _Rewriting(Definitions.of(moved), sizes)
    result = rewriting.rewritten(moved)
    return Restricted(result if rewriting.changed else rel, tuple(rewriting.notes))


@dataclass(slots=True)
class _Rewriting:
    definitions: Definitions
    sizes: Sizes
    notes: list[Note] = field(default_factory=list)
    changed: bool = False
    names: "count[int]" = field(default_factory=count)

    def rewritten(self, rel: Rel) -> Rel:
        """The relation with all recursion outside of loops rewritten, innermost first."""
        if isinstance(rel, algebra.LetRec):
            return self._recursion(replace(rel, body=self.rewritten(rel.body)))
        return with_children(rel, tuple(self.rewritten(child) for child in children(rel)))

    def _recursion(self, rec: algebra.LetRec) -> Rel:
        if free_locals(rec.body).isdisjoint(rec.ids):
            self.changed = True
            return rec.body
        name = ", ".join(rec.ids)
        try:
            asking = Asking(rules_of(rec, self.definitions), self.sizes)
        except NotRules as reason:
            self.notes.append(Note(name, f"as a whole: {reason}"))
            return rec
        placing = _Placing(asking, frozenset(rec.ids), self.definitions.lets, self.names)
        body = placing.placed(rec.body, None)
        if placing.failures:
            self.notes.append(Note(name, f"as a whole: {placing.failures[0]}"))
            return rec
        if not free_locals(body).isdisjoint(rec.ids):
            self.notes.append(Note(name, "as a whole: its rules ask for all of it"))
            return rec
        self.changed = True
        self.notes += placing.notes
        return body


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a relation is needed for: the rows with a row of ``seed`` at the columns."""

    seed: Rel
    columns: Mapping[int, int]
    """For each of these columns, that of the seed."""
    rows: float
    origin: str

    def through(self, columns: Mapping[int, int]) -> "_Asked | None":
        """The same of an input whose columns are these, by column of the input."""
        kept = {below: self.columns[above] for below, above in columns.items() if above in self.columns}
        return replace(self, columns=kept) if kept else None


@dataclass(slots=True)
class _Placing:
    """Puts answers in the place of recursive relations, as far as it is known what is asked of them."""

    asking: Asking
    ids: frozenset[str]
    lets: Mapping[str, Rel]
    names: "count[int]"
    notes: list[Note] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    loops: frozenset[str] = frozenset()
    """The relations of the loops around."""

    def placed(self, rel: Rel, asked: _Asked | None) -> Rel:
        """The relation with answers, of which the rows that are asked for matter."""
        if free_locals(rel).isdisjoint(self.ids):
            return rel
        match rel:
            case algebra.LocalGet():
                return self._answer(rel, (), asked)
            case algebra.Filter(input=algebra.LocalGet() as get, predicates=predicates):
                return algebra.Filter(self._answer(get, predicates, asked), predicates)
            case algebra.Join():
                return self._join(rel, asked)
            case algebra.Let(value=value, body=body):
                return replace(rel, value=self.placed(value, None), body=self.placed(body, asked))
            case algebra.LetRec(body=body):
                around, self.loops = self.loops, self.loops | set(rel.ids)
                inside = tuple(self.placed(value, None) for value in rel.values)
                self.loops = around
                return replace(rel, values=inside, body=self.placed(body, asked))
            case (
                algebra.Get()
                | algebra.Constant()
                | algebra.Map()
                | algebra.Filter()
                | algebra.Project()
                | algebra.Union()
                | algebra.Negate()
                | algebra.Distinct()
                | algebra.Threshold()
                | algebra.Reduce()
                | algebra.Expand()
                | algebra.TopK()
                | algebra.Window()
                | algebra.Single()
            ):
                below = asked and asked.through(_carried(rel))
                return with_children(rel, tuple(self.placed(child, below) for child in children(rel)))
            case _:
                assert_never(rel)

    def _answer(self, get: algebra.LocalGet, predicates: tuple[Scalar, ...], asked: _Asked | None) -> Rel:
        given = constants(predicates)
        if given is not None:
            columns, rows = given
            places = dict(zip(columns, range(len(columns)), strict=True))
            asked = _Asked(rows, places, float(len(rows.rows)), _shown(rows))
        if asked is None:
            self.failures.append(f"nothing is given where {get.id} is read")
            return get
        order = sorted(asked.columns)
        seed, every = asked.seed, all_columns(asked.seed)
        chosen = tuple(every[asked.columns[column]] for column in order)
        if chosen != every:
            seed = values(seed, chosen)
        found = self.asking.answer(get.id, order, seed, asked.rows)
        if isinstance(found, Declined):
            self.failures.append(found.reason)
            return get
        self._note(get.id, order, asked.origin)
        return found

    def _note(self, id_: str, columns: list[int], origin: str) -> None:
        explanation = self.asking.prepared(id_, columns).explanation
        given = ", ".join(f"#{column}" for column in columns)
        details = tuple(f"{name}: {what}" for name, what in explanation.notes)
        text = f"{explanation.strategy.value}; {given} from {origin}"
        numbered = self.asking.rules.numbered.lines()
        self.notes.append(Note(id_, text, (*details, *explanation.rules, *numbered)))

    def _join(self, join: algebra.Join, asked: _Asked | None) -> Rel:
        """The inputs in an order in which those that are ready tell what is asked of others."""
        inputs = list(join.inputs)
        shared: list[tuple[str, Rel]] = []
        waiting = [place for place, one in enumerate(inputs) if not free_locals(one).isdisjoint(self.ids)]
        recursive = frozenset(waiting)
        for place in list(waiting):
            own = asked and asked.through(_columns_of(join, place))
            found = self._attempt(inputs[place], own)
            if found is not None:
                inputs[place] = found
                waiting.remove(place)
        while waiting:
            chosen = self._linked(join, inputs, waiting, recursive)
            if chosen is None:
                inputs[waiting[0]] = self.placed(inputs[waiting[0]], None)
                return replace(join, inputs=tuple(inputs))
            place, link = chosen
            inputs[place] = self._from_join(inputs, place, link, shared)
            waiting.remove(place)
        result: Rel = replace(join, inputs=tuple(inputs))
        for id_, value in reversed(shared):
            result = algebra.Let(id_, value, result)
        return result

    def _attempt(self, rel: Rel, asked: _Asked | None) -> Rel | None:
        """As ``placed``, or None with nothing noted if something is asked for as a whole."""
        notes, failures = len(self.notes), len(self.failures)
        found = self.placed(rel, asked)
        if len(self.failures) == failures:
            return found
        del self.notes[notes:], self.failures[failures:]
        return None

    def _linked(
        self, join: algebra.Join, inputs: list[Rel], waiting: list[int], recursive: frozenset[int]
    ) -> tuple[int, Link] | None:
        """The waiting input that the fewest values are asked of, with where they are from."""
        best: tuple[float, int, Link] | None = None
        for place in waiting:
            for link in links(join, place):
                source = inputs[link.source]
                inside = not free_locals(source).isdisjoint(self.loops)
                if link.source in waiting or inside or may_fail(source, self.lets):
                    continue
                rows = 0.0 if link.source in recursive else self.asking.sizes.rows(source)
                if rows <= FRACTION * self.asking.base_rows() and (best is None or rows < best[0]):
                    best = rows, place, link
        return None if best is None else best[1:]

    def _from_join(self, inputs: list[Rel], place: int, link: Link, shared: list[tuple[str, Rel]]) -> Rel:
        source = inputs[link.source]
        rows = self.asking.sizes.rows(source)
        if not isinstance(source, algebra.LocalGet):
            id_ = f"asking {next(self.names)}"
            shared.append((id_, source))
            source = inputs[link.source] = algebra.LocalGet(id_, algebra.types(source))
        columns = dict(zip(link.columns, range(len(link.columns)), strict=True))
        asked = _Asked(values(source, link.given), columns, rows, "a join")
        return self.placed(inputs[place], asked)


def _carried(rel: Rel) -> dict[int, int]:
    """For columns of an operator's inputs, the columns of its own with their values, by which rows go apart.

    What becomes of an input's row depends only on the rows with the same values there. Where rows are
    taken from others there are none, since filters may have been brought closer to some of them.
    """
    match rel:
        case algebra.Project(columns=columns):
            return {below: above for above, below in reversed(tuple(enumerate(columns)))}
        case algebra.Reduce(keys=keys):
            return {key.index: place for place, key in enumerate(keys) if isinstance(key, Column)}
        case algebra.TopK(group=group) | algebra.Single(group=group):
            return {column: column for column in group}
        case algebra.Window(partition=partition):
            return {column: column for column in partition}
        case algebra.Map(input=source) | algebra.Expand(input=source):
            return {column: column for column in range(len(algebra.types(source)))}
        case algebra.Negate():
            return {}
        case algebra.Union(inputs=inputs) if any(is_negative(source) for source in inputs):
            return {}
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.LocalGet()
            | algebra.Filter()
            | algebra.Join()
            | algebra.Union()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return {column: column for column in range(len(algebra.types(rel)))}
        case _:
            assert_never(rel)


def _columns_of(join: algebra.Join, place: int) -> dict[int, int]:
    """The columns of one input, with where they are in the join's."""
    start = sum(len(algebra.types(source)) for source in join.inputs[:place])
    return {column: start + column for column in range(len(algebra.types(join.inputs[place])))}


def _shown(rows: algebra.Constant) -> str:
    """The values of a question, the first few."""
    texts = [", ".join(map(repr, row)) for row in rows.rows[:3]]
    return " or ".join(texts) + (" ..." if len(rows.rows) > 3 else "")
