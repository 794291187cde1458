"""Who gets in, by which way; and what does not hurt the server."""

import base64
import hashlib
import hmac
import random
import socket
import ssl
import struct
import subprocess
from pathlib import Path

import psycopg
import pytest

from kpg.postgres.passwords import (
    AuthenticationError,
    DowngradeError,
    ScramExchange,
    certificate_hash,
    make_verifier,
)
from kpg.runtime.errors import InterfaceError
from kpg.server.process import PASSWORD, Options, load_tls, parse_address, reload_tls, server_users
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE


def test_a_password_is_asked_for() -> None:
    with serving("s3cret") as running:
        with psycopg.connect(running.dsn, password="s3cret") as one:
            assert one.execute("select 1").fetchone() == (1,)
        for user, password in (("kpg", "other"), ("nobody", "s3cret"), ("kpg", "")):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(running.dsn, user=user, password=password)


def certified(folder: Path, *how: str) -> Options:
    """Options with a certificate that openssl makes, with its key."""
    certificate, key = folder / "server.crt", folder / "server.key"
    command = ("openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost", *how)
    command += ("-out", str(certificate), "-keyout", str(key))
    subprocess.run(command, check=True, capture_output=True)
    return Options(certificate=certificate, key=key)


def test_tls(tmp_path: Path) -> None:
    with (
        serving("s3cret", load_tls(certified(tmp_path))) as running,
        psycopg.connect(running.dsn, password="s3cret", sslmode="require") as one,
    ):
        assert one.pgconn.ssl_in_use
        assert one.execute("select 1").fetchone() == (1,)


def test_without_tls_who_wants_it_is_told(running: Running) -> None:
    with pytest.raises(psycopg.OperationalError, match="SSL"):
        psycopg.connect(running.dsn, sslmode="require")


RSA = ("-newkey", "rsa:2048")
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
SIGNED = {
    "rsa-sha256": ((*RSA, "-sha256"), "sha256"),
    "rsa-sha384": ((*RSA, "-sha384"), "sha384"),
    "rsa-sha512": ((*RSA, "-sha512"), "sha512"),
    "rsa-sha224": ((*RSA, "-sha224"), "sha224"),
    "rsa-sha1": ((*RSA, "-sha1"), "sha256"),
    "rsa-md5": ((*RSA, "-md5"), "sha256"),
    "pss-sha512": ((*RSA, "-sha512", "-sigopt", "rsa_padding_mode:pss"), "sha512"),
    "pss-sha1": ((*RSA, "-sha1", "-sigopt", "rsa_padding_mode:pss"), "sha256"),
    "ec-sha256": ((*EC, "-sha256"), "sha256"),
    "ec-sha384": ((*EC, "-sha384"), "sha384"),
    "ed25519": (("-newkey", "ed25519"), ""),
}


@pytest.mark.parametrize("name", SIGNED)
def test_the_hash_is_that_of_the_signature_of_the_certificate(tmp_path: Path, name: str) -> None:
    how, hashed = SIGNED[name]
    options = certified(tmp_path, *how)
    assert options.certificate is not None
    pem = options.certificate.read_text()
    der = ssl.PEM_cert_to_DER_cert(pem)
    assert certificate_hash(pem.encode()) == (hashlib.new(hashed, der).digest() if hashed else b"")
    key = options.key.read_bytes() if options.key is not None else b""
    assert certificate_hash(key + b"text\n" + pem.encode() + pem.encode()) == certificate_hash(pem.encode())
    assert certificate_hash(key) == b""


@pytest.mark.parametrize("name", ["rsa-sha256", "rsa-sha512", "ec-sha384"])
def test_a_login_is_bound_to_the_channel(tmp_path: Path, name: str) -> None:
    """By libpq, which computes the hash by itself."""
    options = certified(tmp_path, *SIGNED[name][0])
    with serving("s3cret", load_tls(options)) as running:
        for binding in ("require", "prefer", "disable"):
            told = {"password": "s3cret", "sslmode": "require", "channel_binding": binding}
            with psycopg.connect(running.dsn, **told) as one:
                assert one.execute("select 1").fetchone() == (1,)
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(running.dsn, **{**told, "password": "other"})
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            psycopg.connect(running.dsn, password="s3cret", sslmode="disable", channel_binding="require")


def test_another_certificate_takes_another_binding(tmp_path: Path) -> None:
    options = certified(tmp_path, *RSA)
    tls = load_tls(options)
    with serving("s3cret", tls) as running:
        told = {"password": "s3cret", "sslmode": "require", "channel_binding": "require"}
        psycopg.connect(running.dsn, **told).close()
        certified(tmp_path, *RSA, "-sha384")
        reload_tls(options, tls)
        psycopg.connect(running.dsn, **told).close()


def offered(running: Running, *, tls: bool) -> tuple[list[bytes], socket.socket]:
    """The mechanisms that a client is offered, and its socket."""
    port = int(running.dsn.split("port=")[1].split()[0])
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    if tls:
        plain.sendall(struct.pack("!ii", 8, 80877103))
        assert plain.recv(1) == b"S"
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = context.wrap_socket(plain)
    begin = b"user\0kpg\0database\0kpg\0\0"
    plain.sendall(struct.pack("!ii", 8 + len(begin), 196608) + begin)
    return received(plain)[4:].rstrip(b"\0").split(b"\0"), plain


def received(client: socket.socket) -> bytes:
    """The body of the next message."""
    head = b""
    while len(head) < 5:
        head += client.recv(5 - len(head))
    size, body = struct.unpack("!i", head[1:])[0] - 4, b""
    while len(body) < size:
        body += client.recv(size - len(body))
    return body


def first_of(client: socket.socket, mechanism: bytes, text: bytes) -> bytes:
    """The answer to the first message of a login."""
    body = mechanism + b"\0" + struct.pack("!i", len(text)) + text
    client.sendall(b"p" + struct.pack("!i", 4 + len(body)) + body)
    return received(client)


def test_a_downgrade_is_noticed(tmp_path: Path) -> None:
    """A client that could bind the channel, but was told by somebody in between that the server could not."""
    with serving("s3cret", load_tls(certified(tmp_path))) as running:
        found, client = offered(running, tls=True)
        assert found == [b"SCRAM-SHA-256-PLUS", b"SCRAM-SHA-256"]
        with client:
            answer = first_of(client, b"SCRAM-SHA-256", b"y,,n=,r=abc")
            assert b"SCRAM channel binding negotiation error" in answer
        for mechanism, text in (
            (b"SCRAM-SHA-256", b"p=tls-server-end-point,,n=,r=abc"),
            (b"SCRAM-SHA-256-PLUS", b"n,,n=,r=abc"),
            (b"SCRAM-SHA-256-PLUS", b"p=tls-unique,,n=,r=abc"),
            (b"SCRAM-SHA-1", b"n,,n=,r=abc"),
        ):
            with offered(running, tls=True)[1] as client:
                assert b"password authentication failed" in first_of(client, mechanism, text)
        found, client = offered(running, tls=False)
        assert found == [b"SCRAM-SHA-256"]
        with client:
            assert b"r=abc" in first_of(client, b"SCRAM-SHA-256", b"y,,n=,r=abc")
        with offered(running, tls=False)[1] as client:
            answer = first_of(client, b"SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc")
            assert b"password authentication failed" in answer


def proof_of(exchange: ScramExchange, header: str, bound: bytes) -> bytes:
    """The last message of a client that knows the password, and takes the channel for this one."""
    bare = "n=,r=abc"
    answer = exchange.challenge(f"{header}{bare}".encode()).decode()
    fields = dict(part.split("=", 1) for part in answer.split(","))
    without = f"c={base64.b64encode(header.encode() + bound).decode()},r={fields['r']}"
    salted = hashlib.pbkdf2_hmac("sha256", b"right", base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    message = f"{bare},{answer},{without}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True)))
    return without.encode() + b",p=" + proof


def test_a_proof_for_another_channel_is_denied() -> None:
    """Somebody in between shows a certificate of his own, and passes the messages on."""
    verifier, here, there = make_verifier("right"), b"h" * 32, b"t" * 32
    header = "p=tls-server-end-point,,"
    exchange = ScramExchange(verifier, here, binds_channel=True)
    assert exchange.finish(proof_of(exchange, header, here)).startswith(b"v=")
    for bound in (there, b"", here + b"x"):
        exchange = ScramExchange(verifier, here, binds_channel=True)
        last = proof_of(exchange, header, bound)
        with pytest.raises(AuthenticationError):
            exchange.finish(last)
    exchange = ScramExchange(verifier, here)
    with pytest.raises(DowngradeError):
        exchange.challenge(b"y,,n=,r=abc")
    exchange = ScramExchange(verifier)
    last = proof_of(exchange, "y,,", b"")
    assert exchange.finish(last).startswith(b"v=")
    exchange = ScramExchange(verifier)
    exchange.challenge(b"n,,n=,r=abc")
    with pytest.raises(AuthenticationError):
        exchange.finish(last)


def test_a_proof_that_is_not_the_passwords_is_denied() -> None:
    exchange = ScramExchange(make_verifier("right"))
    answer = exchange.challenge(b"n,,n=,r=abc").decode()
    nonce = dict(part.split("=", 1) for part in answer.split(","))["r"]
    with pytest.raises(AuthenticationError):
        exchange.finish(f"c=biws,r={nonce},p={'A' * 43}=".encode())
    with pytest.raises(AuthenticationError):
        ScramExchange(make_verifier("right")).challenge(b"nonsense")


def test_nobody_listens_to_the_world_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)
    assert server_users(Options(trust=True)) is None
    with pytest.raises(InterfaceError, match="lets in anybody"):
        server_users(Options(host="0.0.0.0", trust=True))
    with pytest.raises(InterfaceError, match="no password"):
        server_users(Options())
    monkeypatch.setenv(PASSWORD, "x")
    found = server_users(Options(user="ann"))
    assert found is not None
    assert list(found) == ["ann"]


def test_addresses() -> None:
    assert parse_address("0.0.0.0:5433") == ("0.0.0.0", 5433)
    assert parse_address("[::1]:0") == ("::1", 0)
    for text in ("5433x", "host:port", "host:99999"):
        with pytest.raises(InterfaceError, match="is not an address"):
            parse_address(text)


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
