"""``kpg serve --http``: where it listens, whom that would let in, and how it stops."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kpg.runtime.errors import InterfaceError
from kpg.server.process import Options, server_users
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(trust=True, http=("0.0.0.0", 8080)), "--trust lets in anybody who reaches 0.0.0.0"),
        (Options(http=("0.0.0.0", 8080)), "passwords would come to 0.0.0.0 by HTTP without being encrypted"),
        (Options(http=("shop.example", 80)), "passwords would come to shop.example by HTTP"),
    ],
)
def test_addresses_that_would_let_too_many_in(
    options: Options, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPG_PASSWORD", "secret")
    with pytest.raises(InterfaceError) as failed:
        server_users(options)
    assert failed.value.message.startswith(message)


def test_passwords_stay_on_this_machine_or_are_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPG_PASSWORD", "secret")
    assert set(server_users(Options(http=("127.0.0.1", 8080))) or ()) == {"kpg"}
    assert set(server_users(Options(http=("0.0.0.0", 8080), certificate=Path("x"))) or ()) == {"kpg"}


def test_the_command_serves_until_it_is_told_to_stop() -> None:
    arguments = [
        "serve",
        "--trust",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--history",
        "1 hour",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "kpg", *arguments], stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        found = None
        while found is None:
            line = one.stderr.readline()
            assert line, "it has ended"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        with urllib.request.urlopen(f"{found[0]}/", timeout=PATIENCE) as answer:
            assert b"<title>kpg</title>" in answer.read()
        one.send_signal(signal.SIGTERM)
        one.communicate(timeout=PATIENCE)
        assert one.returncode == 0
