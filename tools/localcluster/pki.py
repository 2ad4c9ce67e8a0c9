"""The certificates of a cluster: its authority, server and client certificates, and the keys of service-account tokens.

trustme makes the certificates. Their keys are elliptic-curve keys, because making an RSA key takes longer than starting
etcd. They are valid from 2000 to 2999, whatever the clock of a virtual machine says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

NO_GROUP = "localcluster"
"""An organization that no rule of RBAC names; trustme always writes one."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate, or the public key of service-account tokens, and a private key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Pki:
    """The certificates and keys in a folder; each is made when it is first requested."""

    folder: Path

    @property
    def ca(self) -> KeyPair:
        """The certificate authority, which signs all other certificates and which clients trust."""
        files = self._files("ca")
        if not (files.certificate.exists() and files.key.exists()):
            made = trustme.CA(organization_name="localcluster")
            _write(files, made.cert_pem.bytes(), made.private_key_pem.bytes())
        return files

    @property
    def service_account(self) -> KeyPair:
        """The key pair that signs service-account tokens; `certificate` is the public key."""
        files = self._files("service-account")
        if not (files.certificate.exists() and files.key.exists()):
            pem, key = serialization.Encoding.PEM, ec.generate_private_key(ec.SECP256R1())
            private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
            _write(files, public, private)
        return files

    def server(self, name: str, *, hosts: Sequence[str]) -> KeyPair:
        """Return a server certificate for DNS names and IP addresses; others for the same name make a new one.

        The name is that of the files, and the common name.
        """
        return self._issued(f"server-{name}", hosts, name, NO_GROUP)

    def client(self, name: str, *, user: str, group: str = NO_GROUP) -> KeyPair:
        """Return a client certificate, which authenticates a user (common name) and its group (organization).

        The name of the files is a DNS name; another user or group for the same name makes a new certificate.
        """
        # A host, because trustme marks the list of hosts as critical, and Go refuses a critical list that is empty.
        return self._issued(f"client-{name}", [name], user, group)

    def _files(self, name: str) -> KeyPair:
        return KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _issued(self, name: str, hosts: Sequence[str], user: str, group: str) -> KeyPair:
        files, authority = self._files(name), self.ca
        if not _fits(files, authority, hosts, [group, name, user]):
            ca = trustme.CA.from_pem(authority.certificate.read_bytes(), authority.key.read_bytes())
            made = ca.issue_cert(*hosts, common_name=user, organization_name=group, organization_unit_name=name)
            _write(files, made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes())
        return files


def _fits(files: KeyPair, authority: KeyPair, hosts: Sequence[str], subject: Sequence[str]) -> bool:
    """Report whether both files exist and the certificate has these hosts, this subject and this authority's signature.

    The subject is the organization, its unit, and the common name.
    """
    try:
        found = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # noqa: BLE001 -- a certificate that cannot be read, for any reason, is replaced
        return False
    made_for = ([str(name.value) for name in names], [part.value for part in found.subject])
    return files.key.exists() and made_for == (list(hosts), list(subject))


def _write(files: KeyPair, public: bytes, private: bytes) -> None:
    files.key.parent.mkdir(parents=True, exist_ok=True)
    # The certificate is written last, so that one that exists has its key.
    for file in (files.certificate, files.key):
        file.unlink(missing_ok=True)
    files.key.touch(0o600)
    files.key.write_bytes(private)
    files.certificate.write_bytes(public)
