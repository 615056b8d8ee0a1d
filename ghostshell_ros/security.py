# SPDX-License-Identifier: Apache-2.0
"""Make and check a keystore of SROS 2, by which a robot's ROS graph lets in only whom its policy names.

The layout is that of the package sros2: `public/`, `private/`, and a folder below `enclaves/` for each enclave, that is for
each process or person. Each has a key, a certificate signed by the keystore's authority, and signed permissions. Needs the
package cryptography.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs7
from lxml import etree

from ghostshell_ros.runtime.data import config_folder

VALID = timedelta(days=3650)
SOON = timedelta(days=30)
"""A certificate that ends this soon is reported."""
SHARED = {
    "identity_ca.cert.pem": "public/identity_ca.cert.pem",
    "permissions_ca.cert.pem": "public/permissions_ca.cert.pem",
    "governance.p7s": "enclaves/governance.p7s",
}
"""Links in each enclave's folder, and what they lead to in the keystore."""
_NAME = re.compile(r"(/[A-Za-z_]\w*)+", re.ASCII)
_DOMAIN = re.compile(rb"<id>(\d+)</id>")
UNREADABLE = (OSError, ValueError, TypeError)
"""Errors that reading a key or a certificate raises."""


class PolicyError(Exception):
    """Raised when a policy cannot be read; the message says why."""


class Policy:
    """Read the policy of a robot, in the format of SROS 2: the rights of each enclave."""

    def __init__(self, robot: str, name: str = "") -> None:
        """Read the policy of a shipped robot, or a file that is called like its robot; `name` is the robot's namespace if it
        is another one. Raises PolicyError.
        """
        self._folder = config_folder() / "security"
        path = Path(robot)
        try:
            path = shipped if (shipped := self._folder / f"{robot}.xml").exists() else path
            self.namespace = f"/{name or path.stem}"
            self.text = path.read_bytes().replace(f'="/{path.stem}'.encode(), f'="{self.namespace}'.encode())
            self._root = etree.fromstring(self.text)
            self.enclaves = [enclave.get("path", "") for enclave in self._root.iter("enclave")]
            if not self.enclaves or not all(map(_NAME.fullmatch, self.enclaves)):
                raise ValueError("its enclaves need paths such as /robot/process")
        except (OSError, etree.XMLSyntaxError, ValueError) as error:
            raise PolicyError(f"{str(path)!r} is no policy of SROS 2 ({error}); see docs/security.md") from error

    def permissions(self, enclave: str, domain: int) -> bytes:
        """Return an enclave's permissions, as DDS Security defines them."""
        values = {"enclave": etree.XSLT.strparam(enclave), "domain": str(domain)}
        return bytes(etree.XSLT(etree.parse(self._folder / "permissions.xsl"))(self._root, **values))

    def governance(self, domain: int) -> bytes:
        """Return the rules of a ROS domain, as DDS Security defines them."""
        return (self._folder / "governance.xml").read_bytes().replace(b"<id>0</id>", b"<id>%d</id>" % domain)


def rights(permissions: bytes) -> set[tuple[str, str]]:
    """Return what permissions allow: pairs of `publish` or `subscribe` and a DDS topic, in which `*` stands for any text."""
    sides = etree.fromstring(permissions).iter("publish", "subscribe")
    return {(side.tag, topic.text) for side in sides for topic in side.iter("topic")}


class Identity:
    """A private key and its certificate, in two files."""

    def __init__(self, key: Path, certificate: Path) -> None:
        """Read both; raises one of UNREADABLE."""
        self.key: Any = serialization.load_pem_private_key(key.read_bytes(), None)
        self.certificate = x509.load_pem_x509_certificate(certificate.read_bytes())

    @classmethod
    def issued(cls, key: Path, certificate: Path, name: str, by: Identity | None = None) -> Identity:
        """Write and return a new identity, signed by an authority or, as one, by itself."""
        secret, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        written = (
            x509.CertificateBuilder(by.certificate.subject if by else subject, subject, secret.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))  # the clock of a robot may be behind
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=by is None, path_length=None if by else 1), critical=by is None)
            .sign(by.key if by else secret, hashes.SHA256())
        )
        key.unlink(missing_ok=True)
        formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret.private_bytes(*formats))
        certificate.write_bytes(written.public_bytes(serialization.Encoding.PEM))
        return cls(key, certificate)

    def signed(self, text: bytes) -> bytes:
        """Return the text with a signature, as S/MIME."""
        builder = pkcs7.PKCS7SignatureBuilder().set_data(text).add_signer(self.certificate, self.key, hashes.SHA256())
        return builder.sign(serialization.Encoding.SMIME, [pkcs7.PKCS7Options.Text, pkcs7.PKCS7Options.DetachedSignature])


def make(folder: Path, policy: Policy, domain: int) -> None:
    """Make the keystore, unless there is one, and new keys and permissions for all enclaves of the policy.

    Raises one of UNREADABLE, as when the authority's key is not there.
    """
    public, private, enclaves = (folder / part for part in ("public", "private", "enclaves"))
    for part in (folder, public, private, enclaves):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (public / "ca.cert.pem").exists():
        Identity.issued(private / "ca.key.pem", public / "ca.cert.pem", "GhostShell")
        for role in ("identity", "permissions"):
            (public / f"{role}_ca.cert.pem").symlink_to("ca.cert.pem")
            (private / f"{role}_ca.key.pem").symlink_to("ca.key.pem")
    authority = Identity(private / "ca.key.pem", public / "ca.cert.pem")
    (enclaves / "governance.p7s").write_bytes(authority.signed(policy.governance(domain)))
    for name in policy.enclaves:
        own = enclaves / name.lstrip("/")
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        for link, target in SHARED.items():
            (own / link).unlink(missing_ok=True)
            (own / link).symlink_to(os.path.relpath(folder / target, own))
        Identity.issued(own / "key.pem", own / "cert.pem", name, authority)
        (own / "permissions.p7s").write_bytes(authority.signed(policy.permissions(name, domain)))


def faults(folder: Path, policy: Policy, domain: int) -> Iterator[str]:
    """Yield a sentence for all that is missing, expired, open to other users, or not as the policy says.

    The signatures of permissions are left to the middleware, which refuses a false one.
    """
    for name in policy.enclaves:
        own = folder / "enclaves" / name.lstrip("/")
        if absent := [file for file in (*SHARED, "cert.pem", "key.pem", "permissions.p7s") if not (own / file).exists()]:
            yield f"{name} lacks {', '.join(absent)}"
        else:
            yield from (f"{name}: {fault}" for fault in _faults_of(own, policy.permissions(name, domain)))
    for key in sorted([*folder.glob("private/*.pem"), *folder.glob("enclaves/**/key.pem")]):
        if key.stat().st_mode & 0o077:
            yield f"other users may use the private key '{key}': chmod 600 '{key}'"


def _faults_of(own: Path, wanted: bytes) -> Iterator[str]:
    """Yield what is wrong in an enclave's folder that should have these permissions."""
    try:
        identity = Identity(own / "key.pem", own / "cert.pem")
        authority = x509.load_pem_x509_certificate((own / "identity_ca.cert.pem").read_bytes())
        identity.certificate.verify_directly_issued_by(authority)
        given, rules = _within((own / "permissions.p7s").read_bytes()), _within((own / "governance.p7s").read_bytes())
        differs = rights(given) != rights(wanted)
    except InvalidSignature:
        yield "its certificate is not signed by the keystore's authority"
    except (*UNREADABLE, etree.XMLSyntaxError) as error:
        yield f"its key, certificate or permissions cannot be read ({error})"
    else:
        end = min(identity.certificate.not_valid_after_utc, authority.not_valid_after_utc)
        if end - datetime.now(timezone.utc) < SOON:
            yield f"its certificate or the authority's ends on {end:%Y-%m-%d}"
        if identity.key.public_key() != identity.certificate.public_key():
            yield "its key does not belong to its certificate"
        if differs:
            yield "its permissions are not those of the policy"
        if {*_DOMAIN.findall(given), *_DOMAIN.findall(rules)} != {*_DOMAIN.findall(wanted)}:
            yield "it was made for another ROS domain (ROS_DOMAIN_ID)"


def _within(signed: bytes) -> bytes:
    """Return the document in a signed text. Raises ValueError when it holds none."""
    return signed[signed.index(b"<dds") : signed.rindex(b"</dds>") + len(b"</dds>")]
