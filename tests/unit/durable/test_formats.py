"""Folders that earlier versions have written are opened by this one, go on, and are whole.

``folders/`` has their files as they were when the process was killed: checkpoints with what changed since the
one before, and a log behind them. A folder of the newest format is there too: it has to stay as it is when
there is a newer one.
"""

import tarfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

import kpg
from kpg.compiler.catalog.constraints import Bound, Heir
from kpg.compiler.catalog.routines import Aggregate, Parameter, Routine
from kpg.persistence import database_state
from kpg.persistence.inspection import check
from kpg.persistence.recovery import DefinitionRestorer
from kpg.runtime.records import dataclass
from kpg.runtime.storage.codec import Codec
from kpg.runtime.types import BIGINT, INTEGER, Type

FOLDERS = Path(__file__).parent / "folders"


@pytest.mark.parametrize(
    "written",
    ["log1_pack1", "log2_pack1", "log2_pack2", "log3_pack2", "log3_pack3", "log3_pack4", "log4_pack5"],
)
def test_a_folder_of_an_earlier_format(written: str, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with tarfile.open(FOLDERS / f"{written}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # early versions of 3.11 have none
        packed.extractall(folder)
    assert list(check(folder)) == []
    with kpg.connect(folder, read_only=True) as reader:
        assert reader.query("select count(*) from t").fetchall() == [(414,)]
    for life in range(2):
        with kpg.connect(folder) as db:
            found = db.query(
                "select count(*), sum(k), sum(amount), max(name) from t where k < 5000"
            ).fetchall()
            assert found == [(414, 143611, Decimal("117620.5"), "name 9")]
            assert (
                db.query("select x from reach order by x").fetchall() == [(1,), (2,), (3,), (5,)][: 4 - life]
            )
            assert db.query("select n, s, m from sums where g = 99").fetchall() == [
                (1, Decimal("12.0"), "name 8")
            ]
            assert db.query("select d from plain where k = 8").fetchall() == [(198,)]
            assert db.query("select nextval('s')").fetchall() == [(2 + life,)]
            if written == "log4_pack5":  # two workers have loaded rows, before the checkpoint and behind it
                whole = db.query("select count(*), sum(k), sum(v), max(g) from loaded where k < 100")
                assert whole.fetchall() == [(100, 4950, 4950, "g6")]
                db.sql(f"insert into loaded values ({100 + life}, 'new', 1)")
            db.sql(f"insert into t values ({5000 + life}, 3, 'new', 1); delete from edge where b = 5")
            for view in ("sums", "reach"):
                db.verify(view)
    assert list(check(folder)) == []


@dataclass(frozen=True, slots=True)
class Deed:
    """A rewrite rule, as earlier versions kept it."""

    table: str


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger, as earlier versions kept it, but for most of its fields."""

    name: str
    table: str


@dataclass(frozen=True, slots=True)
class OldRoutine:
    """A function, as earlier versions kept it."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    columns: tuple[str, ...]
    rows: bool
    body: str
    strict: bool
    language: str = "sql"
    kind: str = "function"
    outs: tuple[tuple[str, Type], ...] = ()
    runs: bool = False
    pure: bool = False
    definer: bool = False
    declared: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """EXCLUDE or a unique index over expressions, as earlier versions kept both."""

    name: str
    elements: tuple[str, ...]
    operators: tuple[str, ...]
    where: str = ""
    nulls_distinct: bool = True
    index: bool = False
    table: str = ""
    kept: str = ""


FORMER = {"trigger.Deed": Deed, "trigger.Trigger": Trigger, "rule.Exclusion": Exclusion}


def _write(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, made: object) -> None:
    """Make a folder with a definition of an earlier version for table t."""
    with monkeypatch.context() as patch:
        patch.setattr(database_state, "LEGACY_CLASSES", {})
        patch.setattr(database_state, "OTHER_CLASSES", database_state.OTHER_CLASSES | FORMER)
        with kpg.connect(folder) as db:
            db.sql("create table t (a int); create table r (a int); insert into t values (1)")
            former = [(("other", kind, "t", name), made)]
            patch.setattr(database_state, "_table_objects", lambda catalog: former)
            db.sql("create unique index i on t (abs(a))")
            db.sql("insert into t values (2)")


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("rule", Deed("t")),
        ("exclusion", Exclusion("r", ("a",), ("=",), table="t", kept="k")),
        ("inherits", Heir("t", "r", "", False, cast("Bound", None))),
        ("trigger", Trigger("r", "t")),
    ],
)
def test_a_folder_with_a_removed_definition_names_it(
    kind: str, made: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "db", monkeypatch, kind, "r", made)
    with pytest.raises(kpg.OperationalError, match=f'the folder has {kind} "r" of "t"'):
        kpg.connect(tmp_path / "db")


def test_a_unique_index_of_an_earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create unique index i on t (abs(a))")
        kept = db._engine.catalog.unique_indexes["t", "i"].kept
    made = Exclusion("i", ("abs(a)",), ("=",), index=True, table="t", kept=kept)
    _write(tmp_path / "db", monkeypatch, "exclusion", "i", made)
    for _ in range(2):
        with kpg.connect(tmp_path / "db") as db:
            with pytest.raises(kpg.IntegrityError, match='"i"'):
                db.sql("insert into t values (-1)")
            db.sql("create table if not exists more (a int)")


def read_again(*values: OldRoutine) -> list[object]:
    """What is read of functions that an earlier version has written."""
    codec = Codec()
    now = database_state.make_codec(lambda _: None)
    for one, name in now.names.items():
        if one is not Routine:
            codec.add(one, name)
    codec.add(OldRoutine, "routine.Routine")
    found: list[object] = now.decode(codec.dumps(list(values)))
    return found


PLAIN = OldRoutine("f", (Parameter("x", INTEGER),), INTEGER, (), False, "SELECT x", True, definer=True)


def test_functions_of_one_query_of_an_earlier_version_are_read() -> None:
    now = Routine("f", (Parameter("x", INTEGER),), INTEGER, (), False, "SELECT x", True, definer=True)
    assert read_again(PLAIN, replace(PLAIN, name="g")) == [now, replace(now, name="g")]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (replace(PLAIN, language="plpgsql", body="BEGIN RETURN x; END", runs=True), 'function "f"'),
        (replace(PLAIN, body="DELETE FROM t RETURNING 1", runs=True), 'function "f"'),
        (replace(PLAIN, kind="procedure"), 'procedure "f"'),
    ],
)
def test_a_folder_with_a_body_that_was_run_names_it(given: OldRoutine, what: str) -> None:
    with kpg.connect() as db, pytest.raises(kpg.OperationalError, match=f"the folder has {what}"):
        DefinitionRestorer(db._engine, None).create_tables({("routine", "f"): tuple(read_again(given))})


def test_an_aggregate_of_an_earlier_version_takes_over_the_type_of_its_value() -> None:
    fold = replace(PLAIN, name="kpg_fold_sums_0", result=BIGINT, language="plpgsql", runs=True, pure=True)
    one = Aggregate("sums", (INTEGER,), "int8_sum", BIGINT, None, "", "kpg_fold_sums_0")
    state = {
        ("routine", "kpg_fold_sums_0"): tuple(read_again(fold)),
        ("other", "aggregate", "sums", ""): (one,),
    }
    with kpg.connect() as db:
        DefinitionRestorer(db._engine, None).create_tables(state)
        assert db._engine.catalog.aggregates == {"sums": (replace(one, result=BIGINT),)}
        assert db._engine.catalog.routines == {}
