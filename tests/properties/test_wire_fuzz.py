"""Clients that send what is wrong hurt nobody: no client waits for ever, and no exception is a surprise."""

import logging

import pytest

from tests.properties.wire_fuzz import round_of


@pytest.mark.parametrize(("seed", "password"), [(1, None), (2, "s3cret"), (3, None)])
def test_what_is_wrong_is_answered(seed: int, password: str | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        round_of(seed, 240, password)
    assert not caplog.records
