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
from kpg.runtime.operators.join import DeltaJoin, DeltaPath, HalfJoin, RangeJoin
from kpg.runtime.operators.linear import Concat, Linear, Negate
from kpg.runtime.operators.loop import Leave, Variable, is_leave
from kpg.runtime.operators.reduce import LoopReduce, Reduce, ThresholdOutput
from kpg.runtime.operators.topk import EPOCH_CORNERS, Corners, TopK
from kpg.runtime.records import dataclass
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.trace.batch import NO_LIMIT, LookupTarget
from kpg.runtime.trace.head import Destination
from kpg.runtime.trace.lookup import INITIAL_MATCHES_PER_ROW, Order
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


NO_ARRAY: Final = np.zeros(1, np.int64)
"""Placeholder for an array that is neither read nor written."""


@dataclass(slots=True, eq=False)
class TraceLinks:
    """Links that append to a trace or look keys up in it."""

    spine: Spine
    lookup_templates: list[tuple[Words, int]] = field(default_factory=list)
    """Slot templates of lookups, with the position of the layers' addresses."""
    append_link: int = -1
    """Number of the link that appends to the trace, after the one that consolidates; -1 for none."""
    append_template: Words = field(default_factory=lambda: NO_ARRAY)
    """Slot template of that link."""
    arrange: Arrange | None = None
    """Operator of these links."""
    destination: Words = field(default_factory=lambda: np.zeros(tables.PLACE_FIELDS, np.int64))
    """Destination of updates, as links read it."""
    ordered_reads: list[tuple[Words, Words, int]] = field(default_factory=list)
    """State of links that read in order, their slot templates, and the position of the layers."""
    layers: Words = field(default_factory=lambda: NO_ARRAY)
    """Descriptions of the batches and the tail for these links, ``int64[batches + 1, BEGINNING]``."""
    latest_rounds: Words = field(default_factory=lambda: NO_ARRAY)
    """In a loop, the latest rounds of the batches."""
    version: int = -1
    """Version of the spine in the links; -1 to refresh them in any case."""
    lookup_target: LookupTarget | None = None
    """Keeps the array alive whose address links have."""

    def refresh(self, table: Words) -> None:
        """Update the links, rows of ``table``, to the trace."""
        spine = self.spine
        if self.lookup_templates:
            target = self.lookup_target = spine.lookup_target()
            for template, at in self.lookup_templates:
                set_array(template, at, target.addresses)
        recent = spine.recent
        if self.append_link >= 0:
            # The links themselves check whether a step is small enough and fits.
            destination = spine.choose_destination(1)
            has_destination = destination is Destination.HEAD or (
                destination is Destination.TAIL and recent.tail is not None
            )
            fits = has_destination and not recent.is_mixed
            if recent.tail is not None:
                set_array(self.append_template, slot.APPENDING_TAIL, recent.tail.description)
                self.append_template[slot.APPENDING_SPARE] = recent.tail.spare.ctypes.data
            self.destination[tables.PLACE_GOES_TO] = (
                tables.TO_TAIL if destination is Destination.TAIL else tables.TO_HEAD
            )
            assert self.arrange is not None
            self.destination[tables.PLACE_BOUND] = self.arrange.bound
            table[self.append_link - 1 : self.append_link + 1, tables.LINK_SKIPPED] = not fits
        if self.ordered_reads and recent.tail is not None:
            batches = spine.batches_in_order.descriptions
            self.layers = np.concatenate((batches, np.zeros((1, layout.BEGINNING), np.int64)))
            if spine.depth > 1:
                self.latest_rounds = np.array(
                    [batch.latest[1:] for batch in spine.batches_in_order], np.int64
                )
                self.latest_rounds = self.latest_rounds.reshape(-1, spine.depth - 1).max(axis=0, initial=0)
            for state, template, at in self.ordered_reads:
                state[tables.READ_TAIL] = 0 if recent.is_mixed else recent.tail.address
                state[tables.READ_LAST] = self.layers[-1:].ctypes.data
                if spine.depth > 1:
                    state[tables.TOP_LATEST] = self.latest_rounds.ctypes.data
                set_array(template, at, self.layers)
        self.version = spine.version


@dataclass(slots=True, eq=False)
class GroupLink:
    """A group table and the slot template of its link."""

    table: GroupTable
    template: Words
    version: int = -1

    def refresh(self) -> None:
        """Update the template after arrays were replaced."""
        table, template = self.table, self.template
        set_array(template, slot.REFRESH_SPEC, table.spec)
        set_array(template, slot.REFRESH_SLOTS, table.slots)
        set_array(template, slot.REFRESH_ROWS, table.table)
        set_array(template, slot.REFRESH_FREE, table.free)
        set_array(template, slot.REFRESH_TOUCHED, table.touched_groups)
        set_array(template, slot.REFRESH_OLD, table.old)
        set_array(template, slot.REFRESH_STATE, table.state)
        self.version = table.version


def set_array(template: Words, at: int, array: NDArray[Any]) -> None:
    """Set the slots from ``at`` on to an array, which the caller keeps alive."""
    template[at] = array.ctypes.data
    template[at + 1 : at + 1 + array.ndim] = array.shape


LONG_PATH: Final = 4
"""Lookups from which paths consolidate in between.

Three lookups make at most 27 combinations of inserted, deleted and updated rows, which are cheap to
match.
"""
COMPARISONS: Final = {
    "<": ranges.LESS,
    "<=": ranges.LESS_EQUAL,
    ">": ranges.GREATER,
    ">=": ranges.GREATER_EQUAL,
}


@dataclass(slots=True, eq=False)
class Links:
    """Links of operators, in order, and the objects that they refer to."""

    operators: list[Operator] = field(default_factory=list)
    """Operator of each link."""
    rows: list[list[int]] = field(default_factory=list)
    """``LINK_FIELDS`` words of each link."""
    streams: dict[Operator, int] = field(default_factory=dict)
    """Output stream of each operator."""
    inputs: dict[Operator, tuple[int, ...]] = field(default_factory=dict)
    """Input streams of each operator, by port."""
    ends: dict[Operator, int] = field(default_factory=dict)
    """Number of the link after an operator's last one."""
    traces: dict[Spine, TraceLinks] = field(default_factory=dict)
    group_links: list[GroupLink] = field(default_factory=list)
    machines: dict[int, tuple[Machine, Words]] = field(default_factory=dict)
    """Machines whose arrays may be replaced, with their templates, by link."""
    retained: list[NDArray[Any]] = field(default_factory=list)
    """Arrays whose addresses are in links."""
    stream_count: int = 0
    """Number of streams."""

    def add(self, operator: Operator) -> None:
        """Append the operator's links, if it can have any."""
        maker = LINKERS.get(type(operator))
        if maker is None or not is_linkable(operator):
            return
        first = len(self.rows)
        self.inputs[operator] = inputs = tuple(self.stream(source) for source in port_sources(operator))
        maker(self, operator)
        last = self.rows[-1]
        last[tables.LINK_READ] = self.array([len(inputs), *inputs])
        self.ends[operator] = len(self.rows)
        self.operators += [operator] * (len(self.rows) - first)

    def stream(self, operator: Operator) -> int:
        """Return the number of an operator's output stream."""
        if operator not in self.streams:
            self.streams[operator] = self.new_stream()
        return self.streams[operator]

    def new_stream(self) -> int:
        """Return the number of a new stream."""
        self.stream_count += 1
        return self.stream_count - 1

    def trace(self, spine: Spine) -> TraceLinks:
        """Return the links of a trace."""
        return self.traces.setdefault(spine, TraceLinks(spine))

    def array(self, values: Iterable[int]) -> int:
        """Return the address of these words in a retained array."""
        return self.address(np.array([*values], np.int64))

    def address(self, array: NDArray[Any]) -> int:
        """Return the address of an array and retain it."""
        return self.retain(array).ctypes.data

    def retain(self, array: NDArray[Any]) -> NDArray[Any]:
        """Retain the array and return it."""
        self.retained.append(array)
        return array

    def template(self) -> Words:
        """Return empty slots, which are retained."""
        return self.retain(np.zeros(tables.MOST_SLOTS, np.int64))

    def append_link(
        self,
        kind: int,
        source: int,
        target: int,
        *,
        kernel: Any = None,
        slots: Words = NO_ARRAY,
        extra: int = 0,
    ) -> None:
        """Append a link; its position and its listeners are set later."""
        row = [0] * tables.LINK_FIELDS
        row[tables.LINK_KIND], row[tables.LINK_INPUT], row[tables.LINK_OUTPUT] = kind, source, target
        row[tables.LINK_FUNCTION] = 0 if kernel is None else address_of(kernel)
        row[tables.LINK_SLOTS], row[tables.LINK_EXTRA] = slots.ctypes.data, extra
        self.rows.append(row)


def address_of(kernel: Any) -> int:
    """Return the address of a kernel's code."""
    address: int = kernel.address
    return address


def is_linkable(operator: Operator) -> bool:
    """Return whether links can do all of the operator's work.

    Operators whose inputs are gone have no links.
    """
    match operator:
        case Source():
            return True
        case _ if not operator.inputs:
            return False
        case Linear():
            return is_simple(step_mfp(operator))
        case Arrange(leaves_loop=leaves_loop):
            return not leaves_loop
        case DeltaJoin(paths=paths):
            return all(
                is_simple(path.mfp) and all(is_simple(half.mfp) for half in path.half_joins) for path in paths
            )
        case TopK(exact=exact):
            return exact is None
        case RangeJoin(key=key, left_mfp=mfp):
            return key == 0 and is_simple(mfp)
        case _:
            return True


def is_simple(mfp: CompiledMfp) -> bool:
    """Return whether an mfp only selects columns or runs on the machine in one go."""
    return mfp.is_simple


def step_mfp(operator: Linear) -> CompiledMfp:
    """Return the mfp that a linear operator evaluates in a step."""
    if operator.lazy is None or operator.lazy.guard is None or operator.consumers:
        return operator.mfp
    return operator.lazy.guard


def port_sources(operator: Operator) -> tuple[Operator, ...]:
    """Return the operators that push to this one, by port."""
    match operator:
        case Source():
            return (operator,)
        case DeltaJoin(streams=streams):
            return streams
        case _:
            return operator.inputs


def link_source(links: Links, operator: Source) -> None:
    """Append a link that forwards the fed changes, for counters and listeners."""
    stream = links.stream(operator)
    links.append_link(tables.PASSING, stream, stream)


def link_linear(links: Links, operator: Linear) -> None:
    """Append a link for the operator's mfp."""
    width = operator.inputs[0].width
    link_mfp(links, step_mfp(operator), width, links.inputs[operator][0], links.stream(operator))


def link_mfp(links: Links, mfp: CompiledMfp, width: int, source: int, target: int) -> None:
    """Append a link for an mfp over rows of ``width`` columns."""
    selected, machine = mfp.projected_columns, mfp.machine
    if selected is not None:
        if selected.tolist() == list(range(width)):
            links.append_link(tables.PASSING, source, target)
        else:
            extra = links.array([selected.shape[0], *selected.tolist()])
            links.append_link(tables.SELECTING, source, target, extra=extra)
        return
    assert machine is not None
    template, code = links.template(), machine.code
    set_array(template, slot.RUN_CODE, code.instructions)
    set_array(template, slot.RUN_CONSTANTS, code.constants)
    set_array(template, slot.RUN_SOURCES, machine.sources.addresses)
    template[slot.PROGRAM_OUTPUTS] = code.outputs
    template[slot.PROGRAM_FILTERS] = int(code.filters)
    template[slot.PROGRAM_MEMOS] = machine.sources.memos if code.memos else 0
    set_array(template, slot.RUN_STATUS, machine.status)
    if machine.sources.entries or code.text:
        links.machines[len(links.rows)] = machine, template
    links.append_link(tables.RUNNING, source, target, kernel=vm.run, slots=template)


def link_concat(links: Links, operator: Concat) -> None:
    """Append a link for all inputs."""
    link_gather(links, links.inputs[operator], links.stream(operator))


def link_gather(links: Links, sources: tuple[int, ...], target: int) -> None:
    """Append a link that concatenates several streams."""
    extra = links.array([len(sources), *sources])
    links.append_link(tables.GATHERING, sources[0], target, extra=extra)


def link_negate(links: Links, operator: Negate) -> None:
    """Append a link that negates diffs."""
    links.append_link(tables.NEGATING, links.inputs[operator][0], links.stream(operator))


def link_arrange(links: Links, operator: Arrange) -> None:
    """Append two links: one consolidates as the destination requires, the other appends.

    Both skip, or neither.
    """
    consolidated = links.new_stream()
    (source,) = links.inputs[operator]
    trace_links, consolidate_template, append_template = (
        links.trace(operator.spine),
        links.template(),
        links.template(),
    )
    destination = links.address(trace_links.destination)
    consolidate_template[slot.TIDYING_MANY] = address_of(sort.consolidate)
    links.append_link(
        tables.TIDYING,
        source,
        consolidated,
        kernel=sort.consolidate_few,
        slots=consolidate_template,
        extra=destination,
    )
    set_array(append_template, slot.APPENDING_HEAD, operator.spine.recent.head.description)
    append_template[slot.APPENDING_INSERT] = address_of(tail.insert)
    trace_links.append_link, trace_links.append_template, trace_links.arrange = (
        len(links.rows),
        append_template,
        operator,
    )
    target = links.stream(operator)
    links.append_link(
        tables.APPENDING, consolidated, target, kernel=head.append, slots=append_template, extra=destination
    )


def link_top_k(links: Links, operator: TopK) -> None:
    """Append a link that reads the changed groups before and after the step."""
    link_top_corners(links, operator, EPOCH_CORNERS)


def link_top_corners(links: Links, operator: TopK, corners: Corners) -> Words:
    """Append a link that reads the groups at these corners of its time, and return its state."""
    trace_links, template = links.trace(operator.arrangement.spine), links.template()
    state = np.zeros(tables.TOP_FIELDS, np.int64)
    state[tables.TOP_HEADS] = address_of(collect.heads)
    state[tables.READ_PLACE] = links.address(trace_links.destination)
    state[tables.TOP_GROUP], state[tables.TOP_DEPTH] = operator.group, trace_links.spine.depth
    trace_links.ordered_reads.append((state, template, slot.DIFFERENCES_LAYERS))
    state[tables.TOP_WIDTH], state[tables.TOP_SKIP] = operator.width, operator.offset
    state[tables.TOP_LIMIT] = NO_LIMIT if operator.limit is None else operator.limit
    set_array(template, slot.DIFFERENCES_OFFSETS, links.retain(corners.offsets))
    set_array(template, slot.DIFFERENCES_SIGNS, links.retain(corners.signs))
    source, target, extra = links.inputs[operator][0], links.stream(operator), links.address(state)
    links.append_link(
        tables.READING_TOP, source, target, kernel=collect.differences, slots=template, extra=extra
    )
    return state


def link_join(links: Links, operator: DeltaJoin) -> None:
    """Append the links of each path, and one that concatenates their outputs."""
    ends = tuple(link_path(links, operator, path) for path in operator.paths)
    link_gather(links, ends, links.stream(operator))


def link_path(links: Links, operator: DeltaJoin, path: DeltaPath) -> int:
    """Append the links of a path and return its output stream."""
    source = links.inputs[operator][path.relation]
    width = operator.streams[path.relation].width
    stream = links.new_stream()
    link_mfp(links, path.mfp, width, source, stream)
    for half in path.half_joins:
        matched, mapped = links.new_stream(), links.new_stream()
        link_half_join(links, half, half.relation < path.relation, stream, matched)
        link_mfp(links, half.mfp, half.matcher.width, matched, mapped)
        last = half is path.half_joins[-1]
        stream = (
            mapped if last or len(path.half_joins) < LONG_PATH else link_consolidate_matches(links, mapped)
        )
    return stream


def link_consolidate_matches(links: Links, source: int) -> int:
    """Append a link that consolidates matches, and return its output stream.

    See ``operators.join.consolidate_if_grown``.
    """
    target = links.new_stream()
    link_consolidate(links, source, target, tables.TO_JOIN)
    return target


def link_consolidate(links: Links, source: int, target: int, destination: int) -> None:
    """Append a link that consolidates as for an arrangement with this destination."""
    template, destination_fields = links.template(), np.zeros(tables.PLACE_FIELDS, np.int64)
    destination_fields[tables.PLACE_GOES_TO] = destination
    template[slot.TIDYING_MANY] = address_of(sort.consolidate)
    kernel, extra = sort.consolidate_few, links.address(destination_fields)
    links.append_link(tables.TIDYING, source, target, kernel=kernel, slots=template, extra=extra)


def link_half_join(links: Links, half: HalfJoin, through: bool, source: int, target: int) -> None:
    """Append a link for a lookup; with ``through`` it matches updates of the same time."""
    template, matcher, spine = links.template(), half.matcher, half.arrangement.spine
    set_array(template, slot.MEET_COLUMNS, matcher.columns)
    template[slot.MEET_ORDER] = (Order.THROUGH if through else Order.BEFORE).value
    template[slot.MEET_ORDERED] = int(matcher.has_leading_key)
    template[slot.MATCHES_EACH], template[slot.MATCHES_WIDTH] = INITIAL_MATCHES_PER_ROW, matcher.width
    spine.recent.head.hash_prefix(matcher.key)
    links.trace(spine).lookup_templates.append((template, slot.MEET_LAYERS))
    links.append_link(tables.MEETING, source, target, kernel=meet.match_few, slots=template)


def link_range_join(links: Links, operator: RangeJoin) -> None:
    """Append a link for the rows that satisfy more or fewer thresholds, and one for the mfp over them."""
    left, right = links.trace(operator.left.spine), links.trace(operator.right.spine)
    rows, thresholds = links.inputs[operator]
    template, matched = links.template(), links.new_stream()
    state = np.zeros(tables.RANGE_FIELDS, np.int64)
    state[tables.READ_PLACE], state[tables.RANGE_THRESHOLDS] = links.address(left.destination), thresholds
    left.ordered_reads.append((state, template, slot.FOLLOW_LAYERS))
    right.lookup_templates.append((template, slot.FOLLOW_THRESHOLDS))
    template[slot.FOLLOW_COMPARISON] = COMPARISONS[operator.comparison]
    template[slot.FOLLOWING_WIDTH] = operator.left.width + 1
    links.append_link(
        tables.RANGING, rows, matched, kernel=ranges.follow, slots=template, extra=links.address(state)
    )
    link_mfp(links, operator.left_mfp, operator.left.width, matched, links.stream(operator))


def link_reduce(links: Links, operator: Reduce) -> None:
    """Append a link that updates the groups and emits the changes."""
    template, table, output_kind = links.template(), operator.table, operator.output.kind
    template[slot.REFRESH_WHAT], template[slot.REFRESH_NK] = output_kind, table.key
    template[slot.REFRESHING_WIDTH] = table.key + (table.spec.shape[0] if output_kind == groups.SUMS else 0)
    links.group_links.append(GroupLink(table, template))
    state = table.state.ctypes.data
    source, target = links.inputs[operator][0], links.stream(operator)
    links.append_link(tables.REFRESHING, source, target, kernel=groups.refresh, slots=template, extra=state)


LINKERS: Final[dict[type[Operator], Callable[[Links, Any], None]]] = {
    Source: link_source,
    Linear: link_linear,
    Concat: link_concat,
    Negate: link_negate,
    Arrange: link_arrange,
    DeltaJoin: link_join,
    Reduce: link_reduce,
    TopK: link_top_k,
    RangeJoin: link_range_join,
}
"""Functions that append the links of an operator, by class."""


LOOP_OPERATORS: Final = (Linear, Concat, Negate, Arrange, DeltaJoin, TopK, Variable)


def has_loop_links(operator: Operator) -> bool:
    """Return whether an operator has links in a loop, as all those of the outermost scope have."""
    if isinstance(operator, LoopReduce):
        return isinstance(operator.output, ThresholdOutput)
    return isinstance(operator, LOOP_OPERATORS)


LEAVE_ROOM: Final = 1 << 12
"""Initial room in rows for the output of a loop."""


class LeaveBuffer:
    """Output of a loop at one leave operator since it was last flushed."""

    __slots__ = ("_data", "_diff", "_leave", "_port", "state")

    def __init__(self, leave: Leave | Arrange, port: int, width: int) -> None:
        self._leave, self._port = leave, port
        self.state: Words = np.zeros(tables.LEFT_FIELDS, np.int64)
        self._make_room(width, LEAVE_ROOM)

    def _make_room(self, width: int, room: int) -> None:
        self._data: Words = np.empty((width, room), np.int64)
        self._diff: Words = np.empty(room, np.int64)
        self.state[:] = self._data.ctypes.data, self._diff.ctypes.data, room, 0

    def flush(self, *, enlarge: bool = False) -> None:
        """Pass the buffered rows to the leave operator, at the outer scope's round.

        With ``enlarge``, enlarge the buffer.
        """
        rows, leave = self.state.item(tables.LEFT_ROWS), self._leave
        if rows:
            updates = Updates(self._data[:, :rows].copy(), leave.step.stamp, self._diff[:rows].copy())
            leave.counters.updates_in += rows
            leave.accept(self._port, updates)
            leave.schedule()
            self.state[tables.LEFT_ROWS] = 0
        if enlarge:
            width, room = self._data.shape
            self._make_room(width, 4 * room)


class LoopLinks(Links):
    """Links of a loop's body; ``corners`` are those for reading groups in every following round."""

    def __init__(self, corners: Corners) -> None:
        Links.__init__(self)
        self._corners = corners
        self.leave_buffers: list[LeaveBuffer] = []
        self.bounds: dict[LoopReduce, Words] = {}
        """Slot templates that contain the bound of a table's rows."""
        self.tops: dict[int, Words] = {}
        """State of the links that read groups, by number."""

    def add(self, operator: Operator) -> None:
        """Append the operator's links, and one for each leave that reads it."""
        first = len(self.rows)
        if isinstance(operator, Variable):
            self._link_variable(operator)
        elif isinstance(operator, LoopReduce) and isinstance(operator.output, ThresholdOutput):
            self._link_threshold(operator, operator.output)
        elif isinstance(operator, TopK):
            self._link_top(operator)
        else:
            Links.add(self, operator)
        if len(self.rows) == first:
            return
        for way, port in operator.consumers:
            if is_leave(way):
                self._link_leave(operator, way, port)
        for row in self.rows[first:]:
            row[tables.LINK_READ] = 0
        inputs = self.inputs[operator]
        self.rows[-1][tables.LINK_READ] = self.array([len(inputs), *inputs])
        self.ends[operator] = len(self.rows)
        self.operators += [operator] * (len(self.rows) - len(self.operators))

    def _link_variable(self, operator: Variable) -> None:
        """Append a link that consolidates the carried updates as the operator does."""
        source, target = self.new_stream(), self.stream(operator)
        self.inputs[operator] = (source,)
        if operator.is_consolidated:
            self.append_link(tables.PASSING, source, target)
            return
        link_consolidate(self, source, target, tables.TO_TAIL)

    def _link_threshold(self, operator: LoopReduce, output: ThresholdOutput) -> None:
        """Append a link that updates the keys' histories and emits the changes in the round."""
        template, state = self.template(), operator.table.state.ctypes.data
        source, target = self.stream(operator.inputs[0]), self.stream(operator)
        self.inputs[operator] = (source,)
        self.bounds[operator] = template
        template[slot.EVALUATING_EVALUATE] = address_of(thresholds.evaluate)
        template[slot.EVALUATING_DISTINCT] = int(output.distinct)
        add = history.accumulate
        self.append_link(tables.EVALUATING, source, target, kernel=add, slots=template, extra=state)

    def _link_top(self, operator: TopK) -> None:
        """Append a link that reads groups and determines the later rounds at which to read them again."""
        if is_linkable(operator):
            self.inputs[operator] = (self.stream(operator.inputs[0]),)
            state = link_top_corners(self, operator, self._corners)
            self.tops[len(self.rows) - 1] = state
            state[tables.TOP_LATER] = address_of(collect.later_rounds)

    def _link_leave(self, operator: Operator, way: Leave | Arrange, port: int) -> None:
        """Append a link that buffers the output of the loop."""
        buffer, stream = LeaveBuffer(way, port, operator.width), self.stream(operator)
        self.leave_buffers.append(buffer)
        self.append_link(tables.LEAVING, stream, stream, extra=self.address(buffer.state))
