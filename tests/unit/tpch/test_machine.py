"""The description of the machine."""

import platform

from kpg.tpch.report import describe_machine, machine_info, package_versions


def test_machine_has_cores_and_memory() -> None:
    about = machine_info()
    assert set(about) == {"processor", "cores", "memory_mb", "system"}
    assert int(about["cores"]) >= 1


def test_versions_name_python_and_packages() -> None:
    assert package_versions()["python"] == platform.python_version()
    assert f"pyarrow {package_versions()['pyarrow']}" in describe_machine()
