"""Certificates and keys of a Flower deployment: TLS of the SuperLink, identity of SuperNodes.

A certificate authority of one's own signs the SuperLink's certificate; whoever connects is given
the authority's certificate (``--root-certificates``) and thereby knows the SuperLink. A SuperNode
is known by its key: an ECDSA key on P-384 whose public half is registered with the SuperLink
(``flwr supernode register``). Flower 1.41 wants the private key in OpenSSH's format and the public
one as a line of OpenSSH's. Files of private keys have mode 0600 from their first byte on.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from feduplink.errors import InputError

#: A SuperLink on this machine is always reached under these.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

# Clocks of two machines differ; a certificate is valid this long before it was made.
_CLOCK_TOLERANCE = datetime.timedelta(minutes=10)


@dataclass(frozen=True)
class ServerCertificate:
    """Where the SuperLink's TLS files are.

    Attributes:
        authority: the authority's certificate, PEM; every machine gets it.
        certificate: the SuperLink's, PEM, signed by the authority.
        key: the SuperLink's private key, PEM, mode 0600.

    """

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class NodeKey:
    """Where a SuperNode's key pair is.

    Attributes:
        private: OpenSSH format, mode 0600; only the SuperNode has it.
        public: one line of OpenSSH's format; registered with the SuperLink.

    """

    private: Path
    public: Path


def write_server_certificate(
    directory: Path, names: Iterable[str] = (), *, days: int = 30
) -> ServerCertificate:
    """Make an authority and a certificate for loopback and ``names`` (host names or IP addresses).

    The authority's private key is not kept: a further certificate takes a further authority.
    """
    directory.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP384R1())
    authority_name = _named("feduplink certificate authority")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    key = ec.generate_private_key(ec.SECP384R1())
    alternatives = [_alternative(name) for name in dict.fromkeys((*LOOPBACK, *names))]
    certificate = (
        _builder(_named("feduplink SuperLink"), authority_name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )
    files = ServerCertificate(
        directory / "ca.crt", directory / "superlink.pem", directory / "superlink.key"
    )
    files.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    write_private(files.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def write_node_key(directory: Path, name: str) -> NodeKey:
    """Make the key pair of the SuperNode ``name``, in ``name`` and ``name.pub``."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    files = NodeKey(directory / name, directory / f"{name}.pub")
    write_private(
        files.private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    )
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    files.public.write_bytes(line + f" {name}\n".encode())
    return files


def write_private(path: Path, content: bytes) -> None:
    """Write a secret that no one else could read at any moment; an old file is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_TOLERANCE)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    """An IP address or a host name, as clients compare it with what they connected to."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name.encode("idna").decode("ascii"))
    except UnicodeError:
        raise InputError(
            f"name: {name!r} is not accepted; accepted: host names and IP addresses."
        ) from None
