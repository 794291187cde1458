"""Who gets in, by which way; and what does not hurt the server."""

import random
import socket
import struct
import subprocess
from pathlib import Path

import psycopg
import pytest

from kpg.runtime.errors import InterfaceError
from kpg.security.passwords import Denied, Exchange, verifier_of
from kpg.server.run import PASSWORD, Options, address_of, tls_of, users_of
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE


def test_a_password_is_asked_for() -> None:
    with serving("s3cret") as running:
        with psycopg.connect(running.dsn, password="s3cret") as one:
            assert one.execute("select 1").fetchone() == (1,)
        for user, password in (("kpg", "other"), ("nobody", "s3cret"), ("kpg", "")):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(running.dsn, user=user, password=password)


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    options = Options(certificate=certificate, key=key)
    with (
        serving("s3cret", tls_of(options)) as running,
        psycopg.connect(running.dsn, password="s3cret", sslmode="require") as one,
    ):
        assert one.pgconn.ssl_in_use
        assert one.execute("select 1").fetchone() == (1,)


def test_without_tls_who_wants_it_is_told(running: Running) -> None:
    with pytest.raises(psycopg.OperationalError, match="SSL"):
        psycopg.connect(running.dsn, sslmode="require")


def test_a_proof_that_is_not_the_passwords_is_denied() -> None:
    exchange = Exchange(verifier_of("right"))
    answer = exchange.challenge(b"n,,n=,r=abc").decode()
    nonce = dict(part.split("=", 1) for part in answer.split(","))["r"]
    with pytest.raises(Denied):
        exchange.finish(f"c=biws,r={nonce},p={'A' * 43}=".encode())
    with pytest.raises(Denied):
        Exchange(verifier_of("right")).challenge(b"nonsense")


def test_nobody_listens_to_the_world_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)
    assert users_of(Options(trust=True)) is None
    with pytest.raises(InterfaceError, match="lets in anybody"):
        users_of(Options(host="0.0.0.0", trust=True))
    with pytest.raises(InterfaceError, match="no password"):
        users_of(Options())
    monkeypatch.setenv(PASSWORD, "x")
    found = users_of(Options(user="ann"))
    assert found is not None
    assert list(found) == ["ann"]


def test_addresses() -> None:
    assert address_of("0.0.0.0:5433") == ("0.0.0.0", 5433)
    assert address_of("[::1]:0") == ("::1", 0)
    for text in ("5433x", "host:port", "host:99999"):
        with pytest.raises(InterfaceError, match="no address"):
            address_of(text)


def startup() -> bytes:
    body = struct.pack("!i", 196608) + b"user\0kpg\0\0"
    return struct.pack("!i", len(body) + 4) + body


@pytest.mark.parametrize("seed", range(12))
def test_nonsense_on_the_socket_hurts_nobody(running: Running, seed: int) -> None:
    """Messages that are cut off, too long, out of order or of no known kind: an error or the end, no more."""
    chance = random.Random(seed)
    kinds = b"QPBDECSHXFdcfp\0\xffz"
    for _ in range(25):
        with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as one:
            data = startup() if chance.random() < 0.8 else chance.randbytes(chance.randrange(40))
            for _ in range(chance.randrange(1, 6)):
                body = chance.choice((b"select 1\0", b"\0\0\0\0\0\0", chance.randbytes(chance.randrange(30))))
                length = chance.choice((len(body) + 4, 4, 0, 2**31 - 1, len(body), 2**32 - 1))
                data += bytes([chance.choice(kinds)]) + struct.pack("!I", length) + body
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            try:
                while one.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
    with psycopg.connect(running.dsn) as good:
        assert good.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", [b"D", b"C"])
def test_a_message_that_ends_too_early_is_answered(running: Running, kind: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as one:
        one.sendall(startup() + kind + struct.pack("!i", 4))
        found = b""
        while part := one.recv(1 << 16):
            found += part
    assert b"C08P01\0Minvalid message: it ends too early" in found


def test_who_sends_much_before_logging_in_is_cut_off(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as one:
        one.sendall(struct.pack("!i", 1 << 29) + b"x" * 20_000)
        assert one.recv(100) == b""
