"""Where data is kept, and what happens when it cannot be made."""

import subprocess
from pathlib import Path

import pytest

from kpg.runtime.errors import OperationalError
from kpg.tpch import data as module
from kpg.tpch.data import TABLES, data_folder, generate, is_complete, table_path


def test_folder_holds_the_tables_and_nothing_else(folder: Path) -> None:
    assert is_complete(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{table}.parquet" for table in TABLES)


def test_cache_folder_is_below_xdg_cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder(0.1) == tmp_path / "kpg" / "tpch" / "sf0.1"


def test_given_folder_is_a_folder_of_scale_factors(tmp_path: Path) -> None:
    assert data_folder(1.0, tmp_path) == tmp_path / "sf1"


def test_given_folder_may_hold_the_tables_itself(folder: Path) -> None:
    assert data_folder(1.0, folder) == folder


def test_missing_table_makes_a_folder_incomplete(tmp_path: Path) -> None:
    for table in TABLES[1:]:
        table_path(tmp_path, table).touch()
    assert not is_complete(tmp_path)


def test_missing_generator_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GENERATOR", "no-such-generator")
    with pytest.raises(
        OperationalError, match="no-such-generator, which makes TPC-H data, is not installed"
    ) as info:
        generate(0.001, tmp_path)
    assert "pip install" in (info.value.hint or "")


def test_failed_generator_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--output-dir") + 1], "region.parquet").touch()
        return subprocess.CompletedProcess(command, 1, "", "no space left on device")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(OperationalError, match="no space left on device"):
        generate(0.001, tmp_path)
    assert list(tmp_path.iterdir()) == []
