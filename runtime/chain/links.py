"""Links: how each kind of operator runs inside a chain, as data for ``kernels.chain``.

Operators without links run in Python; a link may also request that for a single step. Links hold addresses of
arrays. Traces and group tables carry versions, so that links of replaced arrays are refreshed.
:class:`LoopLinks` adds the links of a loop's body: variables and output of the loop.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import (
    collect,
    groups,
    head,
    history,
    layout,
    meet,
    ranges,
    sort,
    tail,
    thresholds,
    vm,
)
from kpg.runtime.kernels import links as tables
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.mfp.bytecode import Machine
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.join import Join, JoinPath, RangeJoin, Stage
from kpg.runtime.operators.linear import Concat, Late, Linear, Negate
from kpg.runtime.operators.loop import ArrangedLeave, Leave, Variable
from kpg.runtime.operators.reduce import Distinct, LoopDistinct, Reduce
from kpg.runtime.operators.topk import ONCE, Corners, TopK
from kpg.runtime.records import dataclass
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.trace.batch import UNLIMITED, Sought
from kpg.runtime.trace.head import Place
from kpg.runtime.trace.lookup import EACH, Order
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


NONE: Final = np.zeros(1, np.int64)
"""Where nothing is read or written."""


@dataclass(slots=True, eq=False)
class Traced:
    """A trace that links append to or look keys up in."""

    spine: Spine
    templates: list[tuple[Words, int]] = field(default_factory=list)
    """Of the slots of links that look keys up, and where the layers' addresses are in them."""
    appends: int = -1
    """The link that appends to it, behind the one that tidies; -1 if none does."""
    appending: Words = field(default_factory=lambda: NONE)
    """The template of its slots."""
    arrange: Arrange | None = None
    """The operator that these links are of."""
    place: Words = field(default_factory=lambda: np.zeros(tables.PLACE_FIELDS, np.int64))
    """Where updates go, as links have it."""
    read: list[tuple[Words, Words, int]] = field(default_factory=list)
    """What links that read in order know, the templates of their slots, and where the layers are in them."""
    layers: Words = field(default_factory=lambda: NONE)
    """What these have of the batches and the tail, ``int64[batches + 1, BEGINNING]``."""
    latest: Words = field(default_factory=lambda: NONE)
    """In a loop the latest rounds of the batches."""
    version: int = -1
    """Of the spine as links know it; -1 if they are to be brought up to date in any case."""
    sought: Sought | None = None
    """Kept, for links have its address."""

    def renew(self, table: Words) -> None:
        """Bring the links, rows of ``table``, up to date with a trace that has changed."""
        spine = self.spine
        if self.templates:
            sought = self.sought = spine.sought()
            for template, at in self.templates:
                fill(template, at, sought.addresses)
        recent = spine.recent
        if self.appends >= 0:
            # Whether a step is small enough, and whether there is room, links find out by themselves.
            place = spine.place(1)
            there = place is Place.HEAD or (place is Place.TAIL and recent.tail is not None)
            fits = there and not recent.is_mixed
            if recent.tail is not None:
                fill(self.appending, slot.APPENDING_TAIL, recent.tail.description)
                self.appending[slot.APPENDING_SPARE] = recent.tail.spare.ctypes.data
            self.place[tables.PLACE_GOES_TO] = tables.TO_TAIL if place is Place.TAIL else tables.TO_HEAD
            assert self.arrange is not None
            self.place[tables.PLACE_BOUND] = self.arrange.bound
            table[self.appends - 1 : self.appends + 1, tables.LINK_SKIPPED] = not fits
        if self.read and recent.tail is not None:
            batches = spine.batches_in_order.descriptions
            self.layers = np.concatenate((batches, np.zeros((1, layout.BEGINNING), np.int64)))
            if spine.depth > 1:
                self.latest = np.array([batch.latest[1:] for batch in spine.batches_in_order], np.int64)
                self.latest = self.latest.reshape(-1, spine.depth - 1).max(axis=0, initial=0)
            for known, template, at in self.read:
                known[tables.READ_TAIL] = 0 if recent.is_mixed else recent.tail.address
                known[tables.READ_LAST] = self.layers[-1:].ctypes.data
                if spine.depth > 1:
                    known[tables.TOP_LATEST] = self.latest.ctypes.data
                fill(template, at, self.layers)
        self.version = spine.version


@dataclass(slots=True, eq=False)
class Refreshed:
    """A group table and the template of the slots of the link that refreshes it."""

    table: GroupTable
    template: Words
    version: int = -1

    def renew(self) -> None:
        """Bring the template up to date with arrays that were replaced."""
        table, template = self.table, self.template
        fill(template, slot.REFRESH_SPEC, table.spec)
        fill(template, slot.REFRESH_SLOTS, table.slots)
        fill(template, slot.REFRESH_ROWS, table.table)
        fill(template, slot.REFRESH_FREE, table.free)
        fill(template, slot.REFRESH_TOUCHED, table.touched)
        fill(template, slot.REFRESH_OLD, table.old)
        fill(template, slot.REFRESH_STATE, table.state)
        self.version = table.version


def fill(template: Words, at: int, array: NDArray[Any]) -> None:
    """Let the slots from ``at`` on be an array's, which the caller keeps."""
    template[at] = array.ctypes.data
    template[at + 1 : at + 1 + array.ndim] = array.shape


LONG: Final = 4
"""Paths of so many look-ups consolidate in between. Three have 27 combinations of rows that came, went and
came anew at most: few enough to be met.
"""
COMPARISONS: Final = {
    "<": ranges.LESS,
    "<=": ranges.LESS_EQUAL,
    ">": ranges.GREATER,
    ">=": ranges.GREATER_EQUAL,
}


@dataclass(slots=True, eq=False)
class Links:
    """The links of operators, in order, and what they refer to."""

    operators: list[Operator] = field(default_factory=list)
    """Of each link."""
    rows: list[list[int]] = field(default_factory=list)
    """Of each link, ``LINK_FIELDS`` words."""
    streams: dict[Operator, int] = field(default_factory=dict)
    """The output of each operator."""
    inputs: dict[Operator, tuple[int, ...]] = field(default_factory=dict)
    """The streams of each operator's ports."""
    ends: dict[Operator, int] = field(default_factory=dict)
    """The number of the link after an operator's last one."""
    traced: dict[Spine, Traced] = field(default_factory=dict)
    refreshed: list[Refreshed] = field(default_factory=list)
    machines: dict[int, tuple[Machine, Words]] = field(default_factory=dict)
    """By link: those that read what may be replaced, with their templates."""
    kept: list[NDArray[Any]] = field(default_factory=list)
    """What links have the addresses of."""
    count: int = 0
    """Of streams."""

    def add(self, operator: Operator) -> None:
        """Make the operator's links, if it is one of those that can have any, behind those there are."""
        maker = MAKERS.get(type(operator))
        if maker is None or not can(operator):
            return
        first = len(self.rows)
        self.inputs[operator] = inputs = tuple(self.stream(one) for one in read_by(operator))
        maker(self, operator)
        last = self.rows[-1]
        last[tables.LINK_READ] = self.array([len(inputs), *inputs])
        self.ends[operator] = len(self.rows)
        self.operators += [operator] * (len(self.rows) - first)

    def stream(self, operator: Operator) -> int:
        """The number of an operator's output."""
        if operator not in self.streams:
            self.streams[operator] = self.new_stream()
        return self.streams[operator]

    def new_stream(self) -> int:
        """The number of one more stream."""
        self.count += 1
        return self.count - 1

    def trace(self, spine: Spine) -> Traced:
        """What is known of a trace."""
        return self.traced.setdefault(spine, Traced(spine))

    def array(self, values: Iterable[int]) -> int:
        """The address of these words, which are kept."""
        return self.address(np.array([*values], np.int64))

    def address(self, array: NDArray[Any]) -> int:
        """The address of an array, which is kept."""
        return self.keep(array).ctypes.data

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array, kept."""
        self.kept.append(array)
        return array

    def template(self) -> Words:
        """Slots to be filled in; they are kept."""
        return self.keep(np.zeros(tables.MOST_SLOTS, np.int64))

    def link(
        self, kind: int, source: int, target: int, *, kernel: Any = None, slots: Words = NONE, extra: int = 0
    ) -> None:
        """Append a link; its position and who hears it are put in later."""
        row = [0] * tables.LINK_FIELDS
        row[tables.LINK_KIND], row[tables.LINK_INPUT], row[tables.LINK_OUTPUT] = kind, source, target
        row[tables.LINK_FUNCTION] = 0 if kernel is None else address_of(kernel)
        row[tables.LINK_SLOTS], row[tables.LINK_EXTRA] = slots.ctypes.data, extra
        self.rows.append(row)


def address_of(kernel: Any) -> int:
    """Where a kernel's code is."""
    address: int = kernel.address
    return address


def can(operator: Operator) -> bool:
    """Whether all that an operator runs can be in links; what reads nothing any more has none."""
    match operator:
        case Source():
            return True
        case _ if not operator.inputs:
            return False
        case Linear():
            return simple(done_by(operator))
        case Join(paths=paths):
            return all(simple(path.mfp) and all(simple(stage.mfp) for stage in path.stages) for path in paths)
        case TopK(exact=exact):
            return exact is None
        case RangeJoin(key=key, left_mfp=mfp):
            return key == 0 and simple(mfp)
        case _:
            return True


def simple(mfp: CompiledMfp) -> bool:
    """Whether an mfp only selects columns, or runs on the machine at once."""
    return mfp.simple


def done_by(operator: Linear) -> CompiledMfp:
    """What a linear operator does in a step."""
    late = isinstance(operator, Late) and operator.guard is not None and not operator.consumers
    return operator.guard if late else operator.mfp  # type: ignore[attr-defined]


def read_by(operator: Operator) -> tuple[Operator, ...]:
    """The operators that push to one, port by port."""
    match operator:
        case Source():
            return (operator,)
        case Join(streams=streams):
            return streams
        case _:
            return operator.inputs


def link_source(links: Links, operator: Source) -> None:
    """One link that passes on what the chain was fed, so that it is counted and heard."""
    stream = links.stream(operator)
    links.link(tables.PASSING, stream, stream)


def link_linear(links: Links, operator: Linear) -> None:
    """One link for its mfp."""
    width = operator.inputs[0].width
    link_mfp(links, done_by(operator), width, links.inputs[operator][0], links.stream(operator))


def link_mfp(links: Links, mfp: CompiledMfp, width: int, source: int, target: int) -> None:
    """One link for an mfp over rows of ``width`` columns."""
    selected, machine = mfp.selected, mfp.machine
    if selected is not None:
        if selected.tolist() == list(range(width)):
            links.link(tables.PASSING, source, target)
        else:
            extra = links.array([selected.shape[0], *selected.tolist()])
            links.link(tables.SELECTING, source, target, extra=extra)
        return
    assert machine is not None
    template, code = links.template(), machine.code
    fill(template, slot.RUN_CODE, code.instructions)
    fill(template, slot.RUN_CONSTANTS, code.constants)
    fill(template, slot.RUN_SOURCES, machine.sources.addresses)
    template[slot.PROGRAM_OUTPUTS] = code.outputs
    template[slot.PROGRAM_FILTERS] = int(code.filters)
    template[slot.PROGRAM_MEMOS] = machine.sources.memos if code.memos else 0
    fill(template, slot.RUN_STATUS, machine.status)
    if machine.sources.entries or code.text:
        links.machines[len(links.rows)] = machine, template
    links.link(tables.RUNNING, source, target, kernel=vm.run, slots=template)


def link_concat(links: Links, operator: Concat) -> None:
    """One link for all of its inputs."""
    link_gather(links, links.inputs[operator], links.stream(operator))


def link_gather(links: Links, sources: tuple[int, ...], target: int) -> None:
    """One link for all of several streams."""
    extra = links.array([len(sources), *sources])
    links.link(tables.GATHERING, sources[0], target, extra=extra)


def link_negate(links: Links, operator: Negate) -> None:
    """One link that turns diffs round."""
    links.link(tables.NEGATING, links.inputs[operator][0], links.stream(operator))


def link_arrange(links: Links, operator: Arrange) -> None:
    """Two links: one consolidates, as far as the place asks for it, and one appends; both skip, or none."""
    tidied = links.new_stream()
    (source,) = links.inputs[operator]
    traced, tidying, appending = links.trace(operator.spine), links.template(), links.template()
    place = links.address(traced.place)
    tidying[slot.TIDYING_MANY] = address_of(sort.consolidate)
    links.link(tables.TIDYING, source, tidied, kernel=sort.consolidate_few, slots=tidying, extra=place)
    fill(appending, slot.APPENDING_HEAD, operator.spine.recent.head.description)
    appending[slot.APPENDING_INSERT] = address_of(tail.insert)
    traced.appends, traced.appending, traced.arrange = len(links.rows), appending, operator
    target = links.stream(operator)
    links.link(tables.APPENDING, tidied, target, kernel=head.append, slots=appending, extra=place)


def link_top_k(links: Links, operator: TopK) -> None:
    """One link that reads the groups of what the arrangement streams on, before the step and now."""
    link_top_at(links, operator, ONCE)


def link_top_at(links: Links, operator: TopK, corners: Corners) -> Words:
    """One link that reads the groups at these corners of its time; what it knows."""
    traced, template = links.trace(operator.arrangement.spine), links.template()
    known = np.zeros(tables.TOP_FIELDS, np.int64)
    known[tables.TOP_HEADS] = address_of(collect.heads)
    known[tables.READ_PLACE] = links.address(traced.place)
    known[tables.TOP_GROUP], known[tables.TOP_DEPTH] = operator.group, traced.spine.depth
    traced.read.append((known, template, slot.DIFFERENCES_LAYERS))
    known[tables.TOP_WIDTH], known[tables.TOP_SKIP] = operator.width, operator.offset
    known[tables.TOP_LIMIT] = UNLIMITED if operator.limit is None else operator.limit
    fill(template, slot.DIFFERENCES_OFFSETS, links.keep(corners.offsets))
    fill(template, slot.DIFFERENCES_SIGNS, links.keep(corners.signs))
    source, target, extra = links.inputs[operator][0], links.stream(operator), links.address(known)
    links.link(tables.READING_TOP, source, target, kernel=collect.differences, slots=template, extra=extra)
    return known


def link_join(links: Links, operator: Join) -> None:
    """The links of each path, and one for all that comes of them."""
    ends = tuple(link_path(links, operator, path) for path in operator.paths)
    link_gather(links, ends, links.stream(operator))


def link_path(links: Links, operator: Join, path: JoinPath) -> int:
    """The links of a path; the stream that comes of it."""
    source = links.inputs[operator][path.relation]
    width = operator.streams[path.relation].width
    found = links.new_stream()
    link_mfp(links, path.mfp, width, source, found)
    for stage in path.stages:
        matched, mapped = links.new_stream(), links.new_stream()
        link_stage(links, stage, stage.relation < path.relation, found, matched)
        link_mfp(links, stage.mfp, stage.meeting.width, matched, mapped)
        last = stage is path.stages[-1]
        found = mapped if last or len(path.stages) < LONG else link_settled(links, mapped)
    return found


def link_settled(links: Links, source: int) -> int:
    """One link that consolidates what was met (``operators.join.settled``); what comes of it."""
    settled = links.new_stream()
    link_tidied(links, source, settled, tables.TO_JOIN)
    return settled


def link_tidied(links: Links, source: int, target: int, goes_to: int) -> None:
    """One link that consolidates for what is no arrangement, as it would for one of that kind."""
    template, place = links.template(), np.zeros(tables.PLACE_FIELDS, np.int64)
    place[tables.PLACE_GOES_TO] = goes_to
    template[slot.TIDYING_MANY] = address_of(sort.consolidate)
    few, extra = sort.consolidate_few, links.address(place)
    links.link(tables.TIDYING, source, target, kernel=few, slots=template, extra=extra)


def link_stage(links: Links, stage: Stage, through: bool, source: int, target: int) -> None:
    """One link for a look-up, which meets updates of the same time if it is to go ``through`` them."""
    template, meeting, spine = links.template(), stage.meeting, stage.arrangement.spine
    fill(template, slot.MEET_COLUMNS, meeting.columns)
    template[slot.MEET_ORDER] = (Order.THROUGH if through else Order.BEFORE).value
    template[slot.MEET_ORDERED] = int(meeting.leading)
    template[slot.MATCHES_EACH], template[slot.MATCHES_WIDTH] = EACH, meeting.width
    spine.recent.head.serve(meeting.key)
    links.trace(spine).templates.append((template, slot.MEET_LAYERS))
    links.link(tables.MEETING, source, target, kernel=meet.meet, slots=template)


def link_range_join(links: Links, operator: RangeJoin) -> None:
    """One link for the rows that satisfy more thresholds or fewer, and one for what is made of them."""
    left, right = links.trace(operator.left.spine), links.trace(operator.right.spine)
    rows, thresholds = links.inputs[operator]
    template, found = links.template(), links.new_stream()
    known = np.zeros(tables.RANGE_FIELDS, np.int64)
    known[tables.READ_PLACE], known[tables.RANGE_THRESHOLDS] = links.address(left.place), thresholds
    left.read.append((known, template, slot.FOLLOW_LAYERS))
    right.templates.append((template, slot.FOLLOW_THRESHOLDS))
    template[slot.FOLLOW_COMPARISON] = COMPARISONS[operator.comparison]
    template[slot.FOLLOWING_WIDTH] = operator.left.width + 1
    links.link(tables.RANGING, rows, found, kernel=ranges.follow, slots=template, extra=links.address(known))
    link_mfp(links, operator.left_mfp, operator.left.width, found, links.stream(operator))


def link_reduce(links: Links, operator: Reduce | Distinct) -> None:
    """One link that adds to the groups and puts out what changes."""
    template, table, what = links.template(), operator.table, operator.output
    template[slot.REFRESH_WHAT], template[slot.REFRESH_NK] = what, table.key
    template[slot.REFRESHING_WIDTH] = table.key + (table.spec.shape[0] if what == groups.SUMS else 0)
    links.refreshed.append(Refreshed(table, template))
    state = table.state.ctypes.data
    source, target = links.inputs[operator][0], links.stream(operator)
    links.link(tables.REFRESHING, source, target, kernel=groups.refresh, slots=template, extra=state)


MAKERS: Final[dict[type[Operator], Callable[[Links, Any], None]]] = {
    Source: link_source,
    Linear: link_linear,
    Late: link_linear,
    Concat: link_concat,
    Negate: link_negate,
    Arrange: link_arrange,
    Join: link_join,
    Reduce: link_reduce,
    Distinct: link_reduce,
    TopK: link_top_k,
    RangeJoin: link_range_join,
}
"""How links are made of operators of each class."""


LINKED: Final = (Linear, Concat, Negate, Arrange, Join, LoopDistinct, TopK, Variable)
"""Operators that have links in a loop, those of the outermost scope among them."""

LEFT: Final = 1 << 12
"""Rows that have left a loop before they are taken out, at first."""


class Left:
    """What has left the loop by one way since it was last taken out."""

    __slots__ = ("_data", "_diff", "_port", "_way", "state")

    def __init__(self, way: Leave | ArrangedLeave, port: int, width: int) -> None:
        self._way, self._port = way, port
        self.state: Words = np.zeros(tables.LEFT_FIELDS, np.int64)
        self._make_room(width, LEFT)

    def _make_room(self, width: int, room: int) -> None:
        self._data: Words = np.empty((width, room), np.int64)
        self._diff: Words = np.empty(room, np.int64)
        self.state[:] = self._data.ctypes.data, self._diff.ctypes.data, room, 0

    def take_out(self, *, more: bool = False) -> None:
        """Hand on what is there, at the outer scope's round; with ``more`` to come make more room for it."""
        rows, way = self.state.item(tables.LEFT_ROWS), self._way
        if rows:
            updates = Updates(self._data[:, :rows].copy(), way.step.stamp, self._diff[:rows].copy())
            way.counters.updates_in += rows
            way.accept(self._port, updates)
            way.schedule()
            self.state[tables.LEFT_ROWS] = 0
        if more:
            width, room = self._data.shape
            self._make_room(width, 4 * room)


class LoopLinks(Links):
    """The links of a loop's body; ``corners`` are those at which groups are read in every round to come."""

    def __init__(self, corners: Corners) -> None:
        Links.__init__(self)
        self._corners = corners
        self.left: list[Left] = []
        self.bounds: dict[LoopDistinct, Words] = {}
        """Templates in which the bound of a table's rows is."""
        self.tops: dict[int, Words] = {}
        """What links know, by number, that read groups."""

    def add(self, operator: Operator) -> None:
        """Make the operator's links, and one for each of its ways out of the loop."""
        first = len(self.rows)
        if isinstance(operator, Variable):
            self._link_variable(operator)
        elif isinstance(operator, LoopDistinct):
            self._link_distinct(operator)
        elif isinstance(operator, TopK):
            self._link_top(operator)
        else:
            Links.add(self, operator)
        if len(self.rows) == first:
            return
        for way, port in operator.consumers:
            if isinstance(way, Leave | ArrangedLeave):
                self._link_leave(operator, way, port)
        for row in self.rows[first:]:
            row[tables.LINK_READ] = 0
        inputs = self.inputs[operator]
        self.rows[-1][tables.LINK_READ] = self.array([len(inputs), *inputs])
        self.ends[operator] = len(self.rows)
        self.operators += [operator] * (len(self.rows) - len(self.operators))

    def _link_variable(self, operator: Variable) -> None:
        """One link, which consolidates what is carried over as far as the operator would."""
        source, target = self.new_stream(), self.stream(operator)
        self.inputs[operator] = (source,)
        if operator.consolidated:
            self.link(tables.PASSING, source, target)
            return
        link_tidied(self, source, target, tables.TO_TAIL)

    def _link_distinct(self, operator: LoopDistinct) -> None:
        """One link that adds to keys' histories, and puts out what changes in the round."""
        template, state = self.template(), operator.table.state.ctypes.data
        source, target = self.stream(operator.inputs[0]), self.stream(operator)
        self.inputs[operator] = (source,)
        self.bounds[operator] = template
        template[slot.EVALUATING_EVALUATE] = address_of(thresholds.evaluate)
        template[slot.EVALUATING_DISTINCT] = int(operator.distinct)
        add = history.accumulate
        self.link(tables.EVALUATING, source, target, kernel=add, slots=template, extra=state)

    def _link_top(self, operator: TopK) -> None:
        """One link that reads groups, and finds out at which later rounds they are to be read again."""
        if can(operator):
            self.inputs[operator] = (self.stream(operator.inputs[0]),)
            known = link_top_at(self, operator, self._corners)
            self.tops[len(self.rows) - 1] = known
            known[tables.TOP_LATER] = address_of(collect.later_rounds)

    def _link_leave(self, operator: Operator, way: Leave | ArrangedLeave, port: int) -> None:
        """One link that keeps what leaves until it is taken out."""
        left, stream = Left(way, port, operator.width), self.stream(operator)
        self.left.append(left)
        self.link(tables.LEAVING, stream, stream, extra=self.address(left.state))
