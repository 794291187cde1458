"""The description of the machine."""

import platform

from kpg.tpch.report import describe, machine, versions


def test_machine_has_cores_and_memory() -> None:
    about = machine()
    assert set(about) == {"processor", "cores", "memory_mb", "system"}
    assert int(about["cores"]) >= 1


def test_versions_name_python_and_packages() -> None:
    assert versions()["python"] == platform.python_version()
    assert f"pyarrow {versions()['pyarrow']}" in describe()
