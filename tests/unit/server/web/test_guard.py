"""Who may ask, and from where."""

from collections.abc import Iterator

import pytest

from tests.unit.server.web.conftest import Web, web_of


@pytest.fixture(scope="module")
def locked() -> Iterator[Web]:
    with web_of("secret") as one:
        yield one


def test_a_password_is_needed(locked: Web) -> None:
    locked.user = None
    status, headers, _ = locked.ask("GET", "/metrics")
    assert (status, headers["www-authenticate"]) == (401, 'Basic realm="kpg", charset="UTF-8"')
    for user in (("kpg", "wrong"), ("nobody", "secret"), ("kpg", ""), ("", "secret")):
        locked.user = user
        assert locked.ask("GET", "/metrics")[0] == 401
        assert locked.ask("POST", "/sql", {"query": "select 1"})[0] == 401
    locked.user = ("kpg", "secret")
    assert locked.ask("GET", "/metrics")[0] == 200
    assert locked.rows("select 1") == [[1]]


def test_whether_it_is_alive_anybody_may_ask(locked: Web) -> None:
    locked.user = None
    assert locked.ask("GET", "/healthz")[::2] == (200, b"ok\n")


@pytest.mark.parametrize("given", ["Basic", "Basic !!", "Basic /w==", "Bearer x"])
def test_what_is_no_password(locked: Web, given: str) -> None:
    locked.user = None
    assert locked.ask("GET", "/metrics", None, {"Authorization": given})[0] in (400, 401)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:80"}, 200),
    ],
)
def test_pages_of_others_may_not_ask(web: Web, headers: dict[str, str], status: int) -> None:
    given = {name: value.replace("PORT", str(web.port)) for name, value in headers.items()}
    given["Content-Type"] = "application/sql"
    assert web.ask("POST", "/sql", "select 1", given)[0] == status
    assert web.ask("GET", "/metrics", None, given)[0] == status


def test_answers_tell_browsers_to_do_nothing_with_them(web: Web) -> None:
    _, headers, _ = web.ask("GET", "/metrics")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
