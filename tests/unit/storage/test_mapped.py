"""Pages that cannot be read are an error, and not the end of the process."""

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kpg.runtime.storage.files import Disk, prefault

SCRIPT = """
import os, sys
import kpg

folder = sys.argv[1]
with kpg.connect(folder) as db:
    db.sql("create table t (id int primary key, v bigint); create table u (a int)")
    db.insert("u", [(7,)])
    db.insert("t", [(n, n * n) for n in range(5000)])
db = kpg.connect(folder)
pack = max(name for name in os.listdir(folder) if name.startswith("pack-"))
os.truncate(os.path.join(folder, pack), 4096)
for _ in range(2):
    try:
        db.query("select sum(v) from t")
    except kpg.OperationalError as error:
        print(str(error).replace(folder, ""))
print(db.query("select 1 + 1").fetchall(), flush=True)
os._exit(0)
"""


def test_mapped_bytes_are_read_or_refused(tmp_path: Path) -> None:
    """To look behind the end of a file that was cut back while it is mapped is as a failing disk is."""
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 64)
    data = Disk(tmp_path).map("a")
    prefault(data)
    prefault(data[:0])
    prefault(data[5000:5001])
    assert data[5000:5002].tolist() == [136, 137]
    with path.open("r+b") as file:
        file.truncate(4096)
    prefault(data[:4096])
    with pytest.raises(OSError) as caught:
        prefault(data[4000:9000])
    assert caught.value.errno == errno.EIO


def test_what_is_not_mapped_is_there() -> None:
    prefault(np.arange(10, dtype=np.uint8)[3:])
    prefault(np.frombuffer(bytearray(100), np.uint8))


def test_a_database_whose_pages_cannot_be_read_tells_so_and_lives(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "db")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    told = "/pack-00000001 cannot be read: Input/output error\nhint: see to the disk, or restore a backup\n"
    assert found.stdout == told * 2 + "[(2,)]\n"
