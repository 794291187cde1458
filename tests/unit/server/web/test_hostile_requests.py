"""Hostile names and values in every parameter of every address: an answer or a refusal, and nothing else.

The addresses are those that the site has: one that is not listed here fails a test.
"""

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import pytest

from kpg.server.web.site import ROUTES
from tests.hostile import HOSTILE
from tests.unit.server.web.conftest import Web
from tests.unit.server.web.test_sockets import connected

Asking = tuple[str, str, Any, dict[str, str]]
Ask = Callable[[str], Asking]


def get(path: str, **headers: str) -> Asking:
    return "GET", path, None, headers


def post(path: str, body: Any) -> Asking:
    return "POST", path, body, {}


def part(text: str) -> str:
    """A text as a part of an address; halves of surrogate pairs have no bytes there."""
    return quote(text.encode(errors="surrogatepass"), safe="")


ASKED: Final[dict[tuple[str, str], tuple[Ask, ...]]] = {
    ("POST", "/sql"): (
        lambda text: post("/sql", {"query": "select $1::text", "parameters": [text]}),
        lambda text: post("/sql", {"query": "select :x", "parameters": {text: 1}}),
        lambda text: post("/sql", {"query": "select 1", "parameters": text}),
        lambda text: post("/sql", {"query": "select 1", "max_rows": text}),
        lambda text: post("/sql", {"query": "select 1", "timeout": text}),
        lambda text: post("/sql", {"query": "select 1", text: 1}),
        lambda text: post("/sql", {"query": f"select * from {named(text)}"}),
        lambda text: post("/sql", {"query": f"select 1 as {named(text)}"}),
    ),
    ("POST", "/datalog"): (
        lambda text: post("/datalog", {"query": "?- p($x).", "parameters": {"x": text}}),
        lambda text: post("/datalog", {"query": "?- p($x).", "parameters": {text: 1}}),
        lambda text: post("/datalog", {"query": text}),
    ),
    ("GET", "/metrics"): (lambda text: get(f"/metrics?{part(text)}={part(text)}"),),
    ("GET", "/dataflow"): (
        lambda text: get(f"/dataflow?since={part(text)}"),
        lambda text: get(f"/dataflow?version={part(text)}"),
    ),
    ("GET", "/relation"): (
        lambda text: get(f"/relation?name={part(text)}"),
        lambda text: get(f"/relation?name=seen&stage={part(text)}"),
    ),
    ("GET", "/subscribe"): (
        lambda text: get(f"/subscribe?view={part('no ' + text)}"),
        lambda text: get(f"/subscribe?view=seen&as_of={part('no ' + text)}"),
        lambda text: get(f"/subscribe?view=seen&snapshot={part(text)}!"),
        lambda text: get(f"/subscribe?view=seen&seen={part('no ' + text)}"),
        lambda text: get(f"/subscribe?goal={part(text)}"),
        lambda text: get(f"/subscribe?goal={part('?- p($x).')}&parameters={part(json.dumps({text: text}))}"),
        lambda text: get(f"/subscribe?{part(text)}=1"),
    ),
    ("GET", "/ws"): (lambda text: get(f"/ws?{part(text)}"),),
}
ELSEWHERE: Final[tuple[Ask, ...]] = (
    lambda text: get(f"/{part(text)}"),
    lambda text: get(f"/page/{part(text)}"),
    lambda text: get("/relation?name=seen", Authorization=f"Basic {part(text)}"),
)


def named(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@pytest.fixture(scope="module", autouse=True)
def victim(web: Web) -> None:
    web.sql(
        "create table victim (a int, b text); insert into victim values (1, 'one'), (2, 'two');"
        " create materialized view seen as select a, b from victim"
    )


def check(web: Web) -> None:
    assert web.rows("select a, b from victim order by a") == [[1, "one"], [2, "two"]]
    assert web.rows("select a, b from seen order by a") == [[1, "one"], [2, "two"]]
    assert web.rows(
        "select relname from pg_class where relnamespace = 'public'::regnamespace order by 1"
    ) == [
        ["seen"],
        ["victim"],
    ]


def test_every_address_is_listed() -> None:
    assert set(ASKED) == set(ROUTES)


@pytest.mark.parametrize("route", [*ASKED, None], ids=lambda one: one[1] if one else "elsewhere")
def test_what_comes_in_an_address_or_a_body_is_a_name_or_a_value(
    web: Web, route: tuple[str, str] | None
) -> None:
    wrong = []
    for ask in ELSEWHERE if route is None else ASKED[route]:
        for text in HOSTILE:
            method, path, body, headers = ask(text)
            status, answered, data = web.ask(method, path, body, headers)
            inner = b"Traceback" in data or b'File "' in data or b"internal error" in data
            if inner or status >= 500 or any("drop table" in one for one in answered.values()):
                wrong.append(f"{path[:80]} {str(body)[:80]} {status} {data[:200]!r}")
    assert not wrong, "\n".join(wrong)
    check(web)


def test_a_value_comes_back_as_it_is(web: Web) -> None:
    for text in HOSTILE:
        if "\0" not in text and "\ud800" not in text:
            assert web.rows("select $1::text", [text]) == [[text]]


def test_what_a_socket_is_sent(web: Web) -> None:
    with connected(web) as socket:
        socket.event()
        for text in HOSTILE:
            for message in (
                {"subscribe": {"view": "no " + text}, "id": 1},
                {"subscribe": {"view": "seen", "as_of": text}, "id": 2},
                {"subscribe": {"view": "seen", text: 1}, "id": 3},
                {"subscribe": {"goal": text}, "id": 4},
                {"subscribe": text, "id": text},
                {"unsubscribe": text},
                {text: text},
            ):
                socket.say(message)
                answer = socket.next()
                assert "error" in answer, (message, answer)
                assert "Traceback" not in str(answer)
    check(web)
