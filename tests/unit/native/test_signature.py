"""Signatures of kernels, read without numba."""

import pytest

from kpg.runtime.errors import InternalError
from kpg.runtime.native.signature import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int64(int64[:, ::1], int64[::1])", "i i82w i81w"),
        ("void(uint64[::1], int32[::1], boolean[::1], float64[::1])", "v u81w i41w b11w f81w"),
        ("boolean(int64, boolean, float64, uint64)", "b i b f u"),
        ("int64(Array(uint8, 1, 'C', True), uint8[::1])", "i u11r u11w"),
        ("int64(int64[::1],\n int64, )", "i i81w i"),
        ("float64()", "f"),
    ],
)
def test_read(text: str, expected: str) -> None:
    assert parse(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "int64(int64[:])",
        "int64(int64[:, :, ::1])",
        "complex128(int64)",
        "int64(int16[::1])",
        "int64(void)",
        "x",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InternalError, match="kernel signature"):
        parse(text)
