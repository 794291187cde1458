"""Requests read off the bytes: the same as pygwire reads, or none."""

import pytest
from pygwire import messages as wire

from kpg.server.statement_cache import Request, match_request, read_request, request_template

BIND = wire.Bind(
    portal="",
    statement="s1",
    param_formats=[0, 1],
    param_values=[b"x", None],
    result_formats=[1],
).to_wire()
DESCRIBE = wire.Describe(kind="P", name="").to_wire()
EXECUTE = wire.Execute(portal="", max_rows=0).to_wire()
SYNC = wire.Sync().to_wire()


def requests(data: bytes) -> list[Request]:
    """The requests that data begins with."""
    found: list[Request] = []
    while (one := read_request(data, found[-1].stop if found else 0)) is not None:
        found.append(one)
    return found


def test_a_prepared_statement_with_values() -> None:
    whole = BIND + DESCRIBE + EXECUTE + SYNC
    (one,) = requests(whole)
    assert (one.start, one.stop, one.name) == (0, len(whole), "s1")
    assert (one.formats, one.values, one.result_formats, one.is_described) == (
        (0, 1),
        (b"x", None),
        (1,),
        True,
    )


def test_several_follow_one_another() -> None:
    query = wire.Query(query_string="select 1").to_wire()
    data = query + BIND + EXECUTE + SYNC + query
    found = requests(data + DESCRIBE)
    assert [(one.name, one.text, one.is_described) for one in found] == [
        (None, "select 1", False),
        ("s1", "", False),
        (None, "select 1", False),
    ]
    assert found[-1].stop == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"X\x00\x00\x00\x04",
        BIND,
        BIND + DESCRIBE,
        BIND + EXECUTE + BIND + EXECUTE + SYNC,
        BIND + wire.Execute(portal="", max_rows=5).to_wire() + SYNC,
        wire.Bind(portal="p", statement="s1").to_wire() + EXECUTE + SYNC,
        b"Q\x00\x00\x00\x08a\x00b\x00",
        b"Q\x00\x00\x00\x06a\xff",
        b"Q\xff\xff\xff\xff",
        b"B\xff\xff\xff\xff" + BIND,
    ],
)
def test_all_else_is_left_to_others(data: bytes) -> None:
    assert requests(data) == []


def test_no_beginning_of_one_is_read() -> None:
    whole = BIND + DESCRIBE + EXECUTE + SYNC
    assert not any(requests(whole[:stop]) for stop in range(len(whole)))


def test_no_damaged_one_breaks_anything() -> None:
    whole = bytearray(BIND + DESCRIBE + EXECUTE + SYNC)
    for place in range(len(whole)):
        for value in (0, 1, 127, 128, 255):
            damaged = bytes(whole[:place]) + bytes([value]) + bytes(whole[place + 1 :])
            for one in requests(damaged):
                assert one.stop <= len(damaged)
                assert all(value is None or len(value) <= len(damaged) for value in one.values)


def test_what_comes_again_is_known_but_for_its_values() -> None:
    (one,) = requests(BIND + DESCRIBE + EXECUTE + SYNC)
    known = request_template(BIND + DESCRIBE + EXECUTE + SYNC, one)
    other = wire.Bind(
        portal="",
        statement="s1",
        param_formats=[0, 1],
        param_values=[None, b"a longer value"],
        result_formats=[1],
    ).to_wire()
    data = b"before" + other + DESCRIBE + EXECUTE + SYNC + b"after"
    assert match_request(data, 6, known) == ([None, b"a longer value"], len(data) - 5)
    for wrong in (
        data[:-6],
        data.replace(b"s1", b"s2"),
        data.replace(DESCRIBE, b""),
        data.replace(other, BIND.replace(b"\0\x02\0\0\0\1", b"\0\x02\0\1\0\1")),
        data.replace(other[:5], b"B\0\0\0\x05"),
    ):
        assert match_request(wrong, 6, known) is None
    assert all(match_request(data[:stop], 6, known) is None for stop in range(6, len(data) - 5))
