"""GET / and the files of the page: read once, from the package, and nothing from outside."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from kpg.server.web.connection import Connection, Refused, Request

if TYPE_CHECKING:
    from kpg.server.listen import Server

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def page() -> dict[str, tuple[str, bytes]]:
    """What lies at which address: its type and its bytes."""
    found = {}
    for file in (files(__package__) / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" + file.name] = (kind, file.read_bytes())
    found["/"] = found.pop("/index.html")
    return found


async def answer(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET of one of them."""
    found = page().get(request.path)
    if found is None:
        raise Refused(404, f"there is nothing at {request.path[:100]}")
    await connection.reply(200, *found)
