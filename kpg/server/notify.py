"""What a service manager is told, if one has asked: systemd's protocol of ``NOTIFY_SOCKET``."""

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def tell(state: str) -> None:
    """Tell the manager of a state; without one, or one that does not listen any more, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
        one.sendto(state.encode(), address)
