"""Operators as links of a chain: what ``kernels.chain`` is to know of each.

An operator that has no links runs in Python; so does one of those that have, where a link says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.replaced import NONE, Refreshed, Traced, fill
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import collect, groups, head, meet, ranges, sort, tail, vm
from kpg.runtime.kernels import links as tables
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.mfp.segment import Machine
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.corners import ONCE, Corners
from kpg.runtime.operators.join import Join, JoinPath, Stage
from kpg.runtime.operators.linear import Concat, Late, Linear, Negate
from kpg.runtime.operators.rangejoin import RangeJoin
from kpg.runtime.operators.reduce import Distinct, Reduce
from kpg.runtime.operators.source import Source
from kpg.runtime.operators.topk import TopK
from kpg.runtime.records import dataclass
from kpg.runtime.trace.collect import UNLIMITED
from kpg.runtime.trace.lookup import Order
from kpg.runtime.trace.meeting import EACH
from kpg.runtime.trace.spine import Spine

Words = NDArray[np.int64]

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
