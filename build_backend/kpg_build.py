"""The build backend: setuptools', with what compiling the kernels needs when a wheel is built.

An editable installation compiles nothing, a checkout does so when a kernel is first called.
"""

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

KERNELS_NEED = ["numpy>=2.0", "numba>=0.61"]


def get_requires_for_build_wheel(
    config_settings: dict[str, str | list[str] | None] | None = None,
) -> list[str]:
    """setuptools' requirements, and the compiler's."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *KERNELS_NEED]
