from __future__ import annotations

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.cli.supernode.register import try_load_public_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from feduplink.errors import InputError
from feduplink.flower.certificates import (
    ServerCertificate,
    write_node_key,
    write_server_certificate,
)


def connect(server: ServerCertificate, authority: Path, name: str) -> None:
    """A real TLS handshake: raises unless ``authority`` vouches for ``name``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            context.wrap_socket(there, server_side=True).close()
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client = ssl.create_default_context(cafile=str(authority))
        client.wrap_socket(here, server_hostname=name).close()
    finally:
        here.close()
        thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "server.example", "10.1.2.3"])
def test_the_certificate_is_accepted_under_loopback_and_given_names(tmp_path: Path, name: str):
    files = write_server_certificate(tmp_path, ["server.example", "10.1.2.3"])
    connect(files, files.authority, name)


def test_it_is_refused_under_other_names(tmp_path: Path):
    files = write_server_certificate(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(files, files.authority, "server.example")


def test_another_authority_does_not_vouch_for_it(tmp_path: Path):
    files = write_server_certificate(tmp_path / "one")
    other = write_server_certificate(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(files, other.authority, "127.0.0.1")


def test_a_name_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"name: 'a\.\.b' is not accepted"):
        write_server_certificate(tmp_path, ["a..b"])


def test_only_the_owner_reads_private_keys(tmp_path: Path):
    (tmp_path / "node").write_text("what was there before")
    (tmp_path / "node").chmod(0o644)
    private = [write_server_certificate(tmp_path).key, write_node_key(tmp_path, "node").private]
    assert [stat.S_IMODE(path.stat().st_mode) for path in private] == [0o600, 0o600]


def test_flower_reads_a_node_key_and_finds_its_public_half(tmp_path: Path):
    files = write_node_key(tmp_path, "node")
    private = load_ssh_private_key(files.private.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert try_load_public_key(files.public) == public_key_to_bytes(private.public_key())
