"""Self-signed certificates, as an operator makes one for a peer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragon.link.address import fingerprint


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate and its key, PEM, and what it is pinned by."""

    chain: Path
    key: Path
    fingerprint: str


def self_signed(directory: Path) -> Certificate:
    """A certificate of a peer that no authority knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "peer")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=10))
        .sign(key, hashes.SHA256())
    )
    chain, secret = directory / "peer.crt", directory / "peer.key"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return Certificate(chain, secret, fingerprint(made.public_bytes(serialization.Encoding.DER)))
