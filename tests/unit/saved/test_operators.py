"""Every operator, and all that operators and tables keep, is either captured or known to be no state.

The attributes of all these classes are listed here: whoever adds one has to say which of the two it is, and
to capture it if it is state. That what is captured is enough is for ``properties/test_saved.py`` to show.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields

import pytest

import kpg.runtime.operators
from kpg.runtime.checkpoint.operator_state import STATELESS
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.basic_reduce import Fold
from kpg.runtime.operators.ego import Ego
from kpg.runtime.operators.input import Input, Sink
from kpg.runtime.operators.linear import PassThrough, Stateless
from kpg.runtime.operators.loop import ArrangedLeave, Loop
from kpg.runtime.operators.reduce import Distinct, LoopDistinct, LoopReduce, Reduce, Single
from kpg.runtime.operators.topk import GroupReader
from kpg.runtime.operators.user import Custom
from kpg.runtime.operators.user_reduce import OutputRecord, UserReduce
from kpg.runtime.state.groups import GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.tables.row_groups import Group, RowGroups, TableHistory, Vacuum
from kpg.runtime.tables.row_index import BagIndex, KeyIndex
from kpg.runtime.tables.table import LookupIndex, Table, UniqueIndex
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.head import Head, Recent, Tail
from kpg.runtime.trace.merge import Tiers
from kpg.runtime.trace.spine import Spine
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.runtime.worker import dataflows
from kpg.runtime.worker.worker import Worker

SAVED = (
    Arrange, ArrangedLeave, Reduce, Distinct, Single, LoopReduce, LoopDistinct, UserReduce, Fold, Loop,
)  # fmt: skip
COMPUTED_ANEW = (Custom, Ego, Input, Sink, dataflows.Capture, dataflows.ChangeHistory)
"""What no durable database takes: operators in Python; overlays; listeners; pasts of views."""

OF_EVERY_OPERATOR = {"place", "consumers", "owners", "pending", "scheduled", "hydrated", "counters"}
KEPT = {
    Arrange: "spine handle bound",
    ArrangedLeave: "spine handle bound",
    Reduce: "table",
    Distinct: "table",
    Single: "table",
    LoopReduce: "table bound",
    LoopDistinct: "table bound",
    UserReduce: "record",
    Fold: "groups",
    Loop: "body",
}
"""What is captured of operators."""
NOT_STATE = {
    "key", "group", "folders", "aggregates", "distinct", "arrangement", "caller", "within", "results",
    "buffered", "changed", "mark", "run_limit", "committed_bound", "before", "owed", "touched", "hasten",
    "mfp", "guard", "data", "streams", "paths", "deltas", "matched", "left", "right", "comparison", "meeting",
    "pair_mfp", "left_mfp", "expander", "poll", "limit", "error_at_limit", "consolidated", "offset", "exact",
    "dead", "then", "evaluators", "peers", "calls", "dictionary", "shape", "indexes", "saved", "read_rows",
    "reread", "compacting", "table", "own", "read", "result", "chosen", "leading",
}  # fmt: skip
"""From the plan, of a step in progress, counters, or made again where it is missed."""


OF_WORKERS = {"Segment", "Sending", "Sends", "Share", "LoopTogether", "Exchange"}
"""Operators of several workers, which have no folder."""


def classes(base: type[Operator]) -> Iterator[type[Operator]]:
    for one in base.__subclasses__():
        yield one
        yield from classes(one)


def test_every_class_of_operators_is_known() -> None:
    for module in pkgutil.walk_packages(kpg.runtime.operators.__path__, "kpg.runtime.operators."):
        importlib.import_module(module.name)
    bases = {"Grouped", "Hearer", "Historic", GroupReader.__name__, Stateless.__name__, PassThrough.__name__}
    found = {one for one in classes(Operator) if one.__name__ not in bases | OF_WORKERS}
    assert found == {*SAVED, *STATELESS, *COMPUTED_ANEW}
    assert set(KEPT) == set(SAVED)


@pytest.mark.parametrize("cls", [*SAVED, *STATELESS], ids=lambda cls: cls.__name__)
def test_every_field_of_an_operator_is_captured_or_no_state(cls: type[Operator]) -> None:
    kept = set(KEPT.get(cls, "").split())
    names = {one.name for one in fields(cls)} - OF_EVERY_OPERATOR - kept
    assert names <= NOT_STATE, names - NOT_STATE


SCHEMA = Schema((ColumnDef("x", BIGINT),), (0,))
ATTRIBUTES = {
    Worker: """dictionary merge_effort tables views epoch tables_made saved reread scope inputs stepping
        _registry _numbers _savepoints _sources _closed _open_epoch _position _compiled _interrupt
        _small_steps _touched _unsettled versions_restored remembering recorder""",
    Dictionary: "arena offsets memos _slots _count _before _found_by",
    Table: """name schema dictionary groups count dead reclaimed _interrupt _required _key _bag _unique
        _lookups _told _untold _deletions _vacuum past _loose_key touched foreseen""",
    RowGroups: "width bits capacity directory linked _groups _nothing",
    KeyIndex: "indexed key highest known _groups _given _asked _slots _tally",
    BagIndex: "_groups _every _tally _asked _slots",
    UniqueIndex: "name columns nulls_distinct _groups _key _given _asked _tally _slots",
    LookupIndex: "columns indexed _groups _key _runs",
    Vacuum: "copied rewritten fullness _groups _buried _full _queue _credit",
    Spine: """width recent depth upper inserted_rows version _holds _tiers _pending _owed _unfolded
        _unfolded_rows _marks _mark _layers _layers_before _newer _sought""",
    GroupTable: "key spec words slots table free state version touched old new when",
    HistoryTable: """key depth words state spec slots keys records bits touched current owed _due _room
        _nothing _evaluated""",
}
SLOTS = {
    Tiers: "_effort _factor _goal _holds merged_rows merging nodes replaced settled since whole",
    Recent: """_depth _outweighing _width churned_at crowded direct ends head lower tail""",
    Head: "_arrays _room address description hashed size",
    Tail: "_depth _first _sides _width address description spare",
    Batch: "_address _description _directory _latest data diff lower since time upper",
    Group: "columns live chart links",
    OutputRecord: "kept fresh",
    TableHistory: "_buried _counts _epochs _gone born count made since",
}


def made() -> list[object]:
    groups = RowGroups(1)
    return [
        Worker(), Dictionary(), Table("t", SCHEMA, Dictionary()), groups, KeyIndex(groups, (0,)),
        BagIndex(groups, None), UniqueIndex("u", groups, (0,), nulls_distinct=True),
        LookupIndex(groups, (0,)), Vacuum(groups), Spine(1, 1), GroupTable(1, ()), HistoryTable(1, (), 2),
    ]  # fmt: skip


@pytest.mark.parametrize("one", made(), ids=lambda one: type(one).__name__)
def test_every_attribute_has_been_thought_of(one: object) -> None:
    assert set(vars(one)) | {"_slots"} == {*ATTRIBUTES[type(one)].split(), "_slots"}


@pytest.mark.parametrize("cls", SLOTS, ids=lambda cls: cls.__name__)
def test_every_slot_has_been_thought_of(cls: type) -> None:
    assert set(cls.__slots__) == set(SLOTS[cls].split())  # type: ignore[attr-defined]
