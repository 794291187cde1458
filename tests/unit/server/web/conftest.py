"""A site in a thread of the tests' process, and a client that asks it."""

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from kpg.server.web.site import Site
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE


class Web:
    """A database that is being served by HTTP: ``port`` of this machine."""

    def __init__(self, running: Running, site: Site) -> None:
        self.running = running
        self.site = site
        self.port = site.address[1]
        self.user: tuple[str, str] | None = None

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer; a body that is no text is sent as JSON."""
        given = dict(headers or {})
        if self.user is not None:
            given["Authorization"] = "Basic " + base64.b64encode(":".join(self.user).encode()).decode()
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
            given.setdefault("Content-Type", "application/json")
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def sql(self, query: str, parameters: Any = None, **fields: Any) -> tuple[int, Any]:
        """Status and JSON of an answer to POST /sql."""
        status, _, data = self.ask("POST", "/sql", {"query": query, "parameters": parameters, **fields})
        return status, json.loads(data)

    def rows(self, query: str, parameters: Any = None) -> list[list[Any]]:
        """The rows of the last statement."""
        status, found = self.sql(query, parameters)
        assert status == 200, found
        rows: list[list[Any]] = found["results"][-1]["rows"]
        return rows

    def datalog(self, query: str, parameters: Any = None, **fields: Any) -> tuple[int, Any]:
        """Status and JSON of an answer to POST /datalog."""
        status, _, data = self.ask("POST", "/datalog", {"query": query, "parameters": parameters, **fields})
        return status, json.loads(data)


@contextmanager
def web_of(password: str | None = None, **options: Any) -> Iterator[Web]:
    with serving(password, **options) as running:
        site = Site(running.server)
        running.call(site.start("127.0.0.1", 0))
        try:
            yield Web(running, site)
        finally:
            running.call(site.stop())


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_of() as one:
        yield one
