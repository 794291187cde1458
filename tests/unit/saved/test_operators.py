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
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.reduce import LoopReduce, Reduce, Single
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
from kpg.runtime.worker.base_tables import BaseTables
from kpg.runtime.worker.worker import Worker

SAVED = (
    Arrange, Reduce, Single, LoopReduce, UserReduce, Fold, Loop,
)  # fmt: skip
COMPUTED_ANEW = (Custom, Ego, Input, Sink, dataflows.Capture)
"""What no durable database takes: operators in Python; overlays; listeners; pasts of views."""

OF_EVERY_OPERATOR = {"place", "consumers", "owners", "pending", "scheduled_step", "is_hydrated", "counters"}
KEPT = {
    Arrange: "spine handle bound",
    Reduce: "table",
    Single: "table",
    LoopReduce: "table bound",
    UserReduce: "record",
    Fold: "groups",
    Loop: "body",
}
"""What is captured of operators."""
NOT_STATE = {
    "output", "arrangement", "undo_groups", "buffered_updates", "caller", "calls", "has_changed",
    "hydration_path", "committed_bound", "is_compacting", "comparison", "is_consolidated", "data",
    "wasted_reads", "deltas", "dictionary", "leaves_loop", "error_at_limit", "evaluators", "exact",
    "expander", "folders", "group", "lazy", "make_runner", "indexes", "key", "leading_type", "left",
    "left_mfp", "limit", "mark", "match_count", "mfp", "offset", "scheduled_groups", "reads_pending",
    "pair_mfp", "paths", "peers", "poll", "is_reading", "computed_rows", "result", "results", "right",
    "run_limit", "undo_indexes", "index_spec", "streams", "table", "as_of", "touched_operators",
    "body_scope", "run_rounds", "since", "readers",
}  # fmt: skip
"""From the plan, of a step in progress, counters, or made again where it is missed."""


OF_WORKERS = {"PathSegment", "SendExchange", "LocalShare"}
"""Operators of several workers, which have no folder."""


def classes(base: type[Operator]) -> Iterator[type[Operator]]:
    for one in base.__subclasses__():
        yield one
        yield from classes(one)


def test_every_class_of_operators_is_known() -> None:
    for module in pkgutil.walk_packages(kpg.runtime.operators.__path__, "kpg.runtime.operators."):
        importlib.import_module(module.name)
    found = {one for one in classes(Operator) if one.__name__ not in OF_WORKERS}
    assert found == {*SAVED, *STATELESS, *COMPUTED_ANEW}
    assert set(KEPT) == set(SAVED)


@pytest.mark.parametrize("cls", [*SAVED, *STATELESS], ids=lambda cls: cls.__name__)
def test_every_field_of_an_operator_is_captured_or_no_state(cls: type[Operator]) -> None:
    kept = set(KEPT.get(cls, "").split())
    names = {one.name for one in fields(cls)} - OF_EVERY_OPERATOR - kept
    assert names <= NOT_STATE, names - NOT_STATE


SCHEMA = Schema((ColumnDef("x", BIGINT),), (0,))
ATTRIBUTES = {
    Worker: """dictionary merge_effort tables views epoch make_reader scope inputs is_stepping worker_group
        restored_versions _registry _sources _compiled_mfps _interrupt _chain_cache _schedule
        _distribution""",
    BaseTables: """by_name dictionary recorder last_table_number closed_changes open_epoch keeps_history
        pending_restore shard_store attach_shards _clock _interrupt _make_table _numbers _savepoints _touched
        _uncommitted""",
    Dictionary: "arena offsets memos _slots _count _before _reply_slots",
    Table: """name schema dictionary groups count dead_rows reclaimed_rows _interrupt _required_columns _key
        _bag _unique _lookups _drained_count _undrained_deletions _deletions _vacuum history _loose_key
        touched_tables prepared_rows""",
    RowGroups: "width bits capacity directory has_links _groups _freed_chart",
    KeyIndex: "indexed key highest known _groups _whole_key _probe_directory _slots _tally",
    BagIndex: "_groups _all_columns _tally _probe_directory _slots",
    UniqueIndex: "name columns nulls_distinct _groups _key _whole_key _probe_directory _tally _slots",
    LookupIndex: "columns indexed _groups _key _runs",
    Vacuum: "copied_rows rewritten_groups fullness _groups _deleted _full _queue _credit",
    Spine: """width recent depth upper inserted_rows version _holds _tiers _pending _owed_rows _uncombined
        _uncombined_rows _last_mark_number _mark _layers _layers_before _newer _target""",
    GroupTable: "key spec words slots table free state version touched_groups old new when",
    HistoryTable: """key depth words state spec slots keys records bits touched_keys current new_rounds
        _scheduled_keys _room _nothing _last_rounds""",
}
SLOTS = {
    Tiers: """_effort _factor _compaction_frontier _holds merged_rows has_unfinished_merge nodes
        has_replaced_batches has_begun_due_merges since compacting_count""",
    Recent: "_depth _outweigh_factor _width next_churn_check is_crowded ordered_steps ends head lower tail",
    Head: "_arrays _room address description hash_columns size",
    Tail: "_depth _first _sides _width address description spare",
    Batch: "_address _description _directory _latest data diff lower since time upper",
    Group: "columns live chart links",
    OutputRecord: "committed uncommitted",
    TableHistory: "_counts _deleted _epochs _retained count created_at defined_at since",
}


def made() -> list[object]:
    groups = RowGroups(1)
    return [
        Worker(), Worker().tables, Dictionary(), Table("t", SCHEMA, Dictionary()), groups,
        KeyIndex(groups, (0,)),
        BagIndex(groups, None), UniqueIndex("u", groups, (0,), nulls_distinct=True),
        LookupIndex(groups, (0,)), Vacuum(groups), Spine(1, 1), GroupTable(1, ()), HistoryTable(1, (), 2),
    ]  # fmt: skip


@pytest.mark.parametrize("one", made(), ids=lambda one: type(one).__name__)
def test_every_attribute_has_been_thought_of(one: object) -> None:
    assert set(vars(one)) | {"_slots"} == {*ATTRIBUTES[type(one)].split(), "_slots"}


@pytest.mark.parametrize("cls", SLOTS, ids=lambda cls: cls.__name__)
def test_every_slot_has_been_thought_of(cls: type) -> None:
    assert set(cls.__slots__) == set(SLOTS[cls].split())  # type: ignore[attr-defined]
