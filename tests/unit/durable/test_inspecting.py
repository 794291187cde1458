"""What the files of a folder are, and what is wrong with them."""

import errno
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kpg
from kpg.cli.commands import app
from kpg.persistence.inspection import check, find_damage, inspect_files
from kpg.runtime.storage.files import Bytes, Disk


def made(path: Path) -> Path:
    with kpg.connect(path) as db:
        db.sql("create table t (id int primary key, name text unique)")
        db.sql("create materialized view v as select count(*) n from t; create index on t (name)")
        db.insert("t", [(number, f"name {number}") for number in range(2000)])
        db.sql("delete from t where id < 10")
    return path


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


def test_every_file_is_told(tmp_path: Path) -> None:
    path = made(tmp_path / "db")
    (path / "pack-00000099").write_bytes(b"left by a crash")
    facts = {one.name: one for one in inspect_files(path)}
    assert {"manifest", "lock"} < set(facts)
    assert {facts[name].kind for name in facts if name.startswith("log-")} == {"log"}
    assert facts["pack-00000099"].details == "left over"
    assert all(one.bytes == (path / one.name).stat().st_size for one in facts.values())


def test_inspect_prints_files_tables_and_views(tmp_path: Path) -> None:
    path = made(tmp_path / "db")
    code, output = run("inspect", str(path))
    assert code == 0
    lines = [line.split() for line in output.splitlines()]
    assert [line[:3] for line in lines if line[:1] == ["t"]] == [["t", "table", "1,990"]]
    assert [line for line in lines if line[:1] == ["v"]] == [["v", "materialized", "view", "1", "rows"]]
    assert ["epoch", "2"] in lines


def test_a_sound_database_has_nothing_wrong(tmp_path: Path) -> None:
    path = made(tmp_path / "db")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert list(check(path)) == []
    assert run("check", str(path)) == (0, f"{path}: all is as it should be\n")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_flipped_bit_is_found_in_every_file(tmp_path: Path) -> None:
    path = made(tmp_path / "db")
    for file in sorted(path.iterdir()):
        if file.name == "lock":
            continue
        whole = file.read_bytes()
        end = len(whole.rstrip(b"\0"))
        for at in (0, end // 3, end // 2, end - 1):
            broken = bytearray(whole)
            broken[at] ^= 4
            file.write_bytes(bytes(broken))
            lines = list(find_damage(path))
            assert lines, (file.name, at)
            assert any(file.name in line for line in lines), (file.name, at, lines)
            code, output = run("check", str(path))
            assert (code, file.name in output) == (1, True)
        file.write_bytes(whole)
    assert list(find_damage(path)) == []


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    path = made(tmp_path / "db")
    for file in sorted(path.iterdir()):
        if file.name in (
            "lock",
            "manifest",
            "committed",
        ):  # earlier versions have no "committed"
            continue
        whole = file.read_bytes()
        file.unlink()
        assert [line for line in find_damage(path) if f"{file.name} is missing" in line]
        file.write_bytes(whole)


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_what_is_no_database_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    refused = {"file": "is a file", "none": "does not exist", "folder": "is no database of kpg"}
    for name, message in refused.items():
        code, output = run(command, str(tmp_path / name))
        assert (code, message in output) == (1, True), output


def test_an_index_and_a_view_that_are_wrong_are_found() -> None:
    from kpg.persistence.inspection import check_contents

    db = kpg.connect()
    db.sql("create table t (id int primary key, name text unique)")
    db.sql("create materialized view v as select count(*) n from t; create index by_name on t (name)")
    db.insert("t", [(number, f"name {number}") for number in range(100)])
    db.sql("delete from t where id = 50")
    engine = db._engine
    assert list(check_contents(engine)) == []
    table = engine.executor.store("t")  # type: ignore[attr-defined]
    saved, saved_unique = table._key._slots.copy(), table._unique[0]._slots.copy()
    table._key._slots[:] = 0
    table._unique[0]._slots[:] = 0
    assert list(check_contents(engine)) == [
        "the index of the primary key of table t is not of its rows",
        "the index of t_name_key of table t is not of its rows",
    ]
    table._key._slots[:] = saved
    table._unique[0]._slots[:] = saved_unique
    table.groups.groups[0].live[0] &= ~1
    assert "table t counts 99 rows and has 98" in list(check_contents(engine))
    assert any("view v differs from its query" in line for line in check_contents(engine))
    assert any("index by_name differs from its table in" in line for line in check_contents(engine))


def test_no_code_that_a_folder_names_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What calls it is named, and the rest is told and checked; with --imports all is."""
    (tmp_path / "mischief.py").write_text("print('run')\ndef twice(x: int) -> int:\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = made(tmp_path / "db")
    with kpg.connect(path) as db:
        import mischief  # type: ignore[import-not-found]

        db.create_function("twice", mischief.twice)
        db.sql("create materialized view w as select twice(id) d from t; create view x as select * from w")
        db.datalog(
            ".functor twice(a: number): number\n.decl p(a: number) .output p\np(@twice(2)).",
            functors={"twice": mischief.twice},
        )
    del sys.modules["mischief"]
    code, output = run("inspect", str(path))
    told = "not opened here, as it calls twice, a function of mischief:twice"
    assert code == 0 and f"w: {told}" in output
    assert "x: not opened here, as it reads a skipped relation" in output
    assert [line.split()[:3] for line in output.splitlines() if line.startswith("t ")] == [
        ["t", "table", "1,990"]
    ]
    code, output = run("check", str(path))
    assert code == 0 and "w was not checked: it calls twice" in output
    assert "Datalog program 1 was not checked: functor twice has to be given again" in output
    assert "mischief" not in sys.modules
    code, output = run("check", str(path), "--imports")
    assert (code, output) == (0, f"run\n{path}: all is as it should be\n")


def test_a_folder_whose_files_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    kpg.connect(folder).close()
    (folder / "manifest").unlink()
    (folder / "manifest").symlink_to("manifest")
    assert list(check(folder)) == [f"{folder} cannot be read: {os.strerror(errno.ELOOP)}"]
    with pytest.raises(kpg.OperationalError, match="cannot be opened"):
        kpg.connect(folder)


def test_a_checkpoint_that_comes_meanwhile_leaves_nothing_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is swapped, and packs are removed, right behind the first look at it."""
    path = made(tmp_path / "db")
    with kpg.connect(path) as db:
        db.sql("delete from t; insert into t values (1, 'one')")
        looked: list[str] = []

        def map_and_go_on(disk: Disk, name: str) -> Bytes:
            found = plain(disk, name)
            if name == "manifest" and not looked:
                looked.append(name)
                db.sql("checkpoint")
            return found

        plain = Disk.map
        monkeypatch.setattr(Disk, "map", map_and_go_on)
        before = sorted(path.glob("pack-*"))
        assert list(find_damage(path)) == []
        assert looked
        assert sorted(path.glob("pack-*")) != before
        db.sql("insert into t values (2, 'two')")
        looked.clear()
        assert {one.kind for one in inspect_files(path)} == {"manifest", "lock", "log", "pack"}
