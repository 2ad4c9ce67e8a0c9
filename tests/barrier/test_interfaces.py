"""Which interface holds which address: the kernel's answer, and what is made of its messages."""

import socket
import struct

import pytest

from frameworkbarrier import settings
from frameworkbarrier.files import container, interfaces
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.render import render
from frameworkbarrier.text import canonical_ip
from tests.barrier.gangs import environment, released, roster


def test_the_kernel_names_the_interface_of_an_address_of_this_machine() -> None:
    assert interfaces.read()["127.0.0.1"] == "lo"
    assert container.read("").interfaces["127.0.0.1"] == "lo"


def attribute(kind: int, address: str) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    data = struct.pack("=HH", 4 + len(packed), kind) + packed
    return data + bytes(-len(data) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body


class Kernel:
    """A socket that answers a dump with these packets."""

    def __init__(self, *packets: bytes) -> None:
        self.packets = list(packets)

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def send(self, request: bytes) -> None:
        assert struct.unpack_from("=IHHII", request)[:3] == (len(request), 22, 0x301)

    def recv(self, _size: int) -> bytes:
        if not self.packets:
            raise TimeoutError
        return self.packets.pop(0)


def address_of(index: int, *attributes: bytes, family: int = socket.AF_INET) -> bytes:
    return message(20, struct.pack("=BBBBI", family, 24, 0, 0, index) + b"".join(attributes))


DONE = message(3, bytes(4))


@pytest.mark.parametrize(
    ("packets", "found"),
    [
        ([address_of(1, attribute(1, "10.0.0.1")) + DONE], {"10.0.0.1": "lo"}),
        ([address_of(1, attribute(1, "10.0.0.1"), attribute(2, "10.0.0.2")), DONE], {"10.0.0.2": "lo"}),
        ([address_of(1, attribute(1, "fd00::1"), family=socket.AF_INET6) + DONE], {"fd00::1": "lo"}),
        ([address_of(1, attribute(1, "10.0.0.1")), address_of(1, attribute(1, "10.0.0.9")) + DONE], 2),
        ([address_of(1, attribute(1, "10.0.0.1"))], {"10.0.0.1": "lo"}),
        ([message(2, bytes(20))], {}),
        ([address_of(999_999, attribute(1, "10.0.0.1")) + DONE], {}),
        ([address_of(1, attribute(1, "10.0.0.1"), family=socket.AF_PACKET) + DONE], {}),
        ([b"\x01\x02", message(20, b"x"), DONE], {}),
        ([], {}),
    ],
    ids=[
        *("one", "point to point", "IPv6", "a secondary one", "no end", "refused", "an interface that is gone"),
        *("another family", "garbage", "silence"),
    ],
)
def test_the_local_address_of_each_message_counts_and_nothing_raises(
    monkeypatch: pytest.MonkeyPatch, packets: list[bytes], found: dict[str, str] | int
) -> None:
    monkeypatch.setattr(interfaces.socket, "socket", lambda *_: Kernel(*packets))
    read = interfaces.read()
    assert read == found if isinstance(found, dict) else len(read) == found


def test_an_address_has_one_form() -> None:
    assert canonical_ip("FD00:0::0001") == "fd00::1"
    assert canonical_ip("10.0.0.1") == "10.0.0.1"


def variables(address: str, known: dict[str, str]) -> dict[str, str]:
    document = roster({"worker": 2})
    document["taskRoles"][0]["tasks"][1][1] = address
    read = settings.parse(environment("worker", 1, FB_PRESET="pytorch"))
    files = render(released(document, "worker", 1), read, Container(interfaces=known)).files
    env = next(file for file in files if file.name == "env").data.decode()
    return dict(line.split("=", 1) for line in env.replace("'", "").splitlines())


@pytest.mark.parametrize(
    ("address", "known", "gloo", "nccl"),
    [
        ("10.0.0.2", {"127.0.0.1": "lo", "10.0.0.2": "eth0"}, "eth0", "=eth0"),
        ("FD00:0::2", {"10.0.0.2": "eth0", "fd00::2": "net1"}, "net1", "=net1"),
        ("10.0.0.2", {"127.0.0.1": "lo"}, None, None),
    ],
    ids=["IPv4", "IPv6", "not known"],
)
def test_gloo_and_nccl_use_the_interface_of_the_pods_address(
    address: str, known: dict[str, str], gloo: str | None, nccl: str | None
) -> None:
    found = variables(address, known)
    assert (found.get("GLOO_SOCKET_IFNAME"), found.get("NCCL_SOCKET_IFNAME")) == (gloo, nccl)
