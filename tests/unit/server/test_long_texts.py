"""A client's long texts are read beside the loop that serves the others."""

import threading
from typing import Any

import psycopg
import pytest

from kpg.runtime.interrupts import checkpoint
from kpg.server import client, extended_protocol
from tests.unit.server.conftest import Running


@pytest.fixture
def threads(running: Running, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each text that is parsed whether the loop's thread does it."""
    found: list[bool] = []

    async def ident() -> int:
        return threading.get_ident()

    loop, parse = running.call(ident()), client.parse

    def watched(text: str) -> Any:
        found.append(threading.get_ident() == loop)
        return parse(text)

    monkeypatch.setattr(client, "parse", watched)
    monkeypatch.setattr(extended_protocol, "parse", watched)
    return found


@pytest.mark.parametrize("values", [None, [5]])
def test_long_texts_are_parsed_by_another_thread(
    running: Running, threads: list[bool], values: list[int] | None
) -> None:
    text = "with x as (select 1) select 1" + "/* as long as that */" * client.MAX_INLINE_SIZE
    text += "" if values is None else " + %s::int"
    with psycopg.connect(running.dsn, autocommit=True) as one:
        assert one.execute(text, values).fetchall() == [(1 if values is None else 6,)]
        assert threads == [False]
        assert one.execute("with x as (select 1) select 1 + 1").fetchall() == [(2,)]
        assert threads == [False, True]


@pytest.mark.parametrize("ends", ["cancel", "timeout"])
def test_what_another_thread_parses_can_be_ended(
    running: Running, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    def endless(text: str) -> Any:
        while True:
            checkpoint()

    text = "with x as (select 1) select 1" + "/* as long as that */" * client.MAX_INLINE_SIZE
    with psycopg.connect(running.dsn, autocommit=True) as one:
        if ends == "timeout":
            one.execute("set statement_timeout = 50")
        with monkeypatch.context() as changed:
            changed.setattr(client, "parse", endless)
            canceling = running.canceling(one, text) if ends == "cancel" else None
            with pytest.raises(psycopg.errors.QueryCanceled):
                one.execute(text)
            if canceling is not None:
                canceling.join()
        assert one.execute("select 1").fetchall() == [(1,)]
