"""Which interface holds which address: the kernel's answer, and what is made of its messages."""

import socket
import struct
from unittest.mock import MagicMock

import pytest

from frameworkbarrier.files import container, interfaces
from frameworkbarrier.files.container import Container
from tests.barrier.files.written import files, read_env_file
from tests.barrier.gangs import roster


def test_the_kernel_names_the_interface_of_an_address_of_this_machine() -> None:
    assert interfaces.read()["127.0.0.1"] == "lo"
    assert container.read("").interfaces["127.0.0.1"] == "lo"


def attribute(kind: int, address: str) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    data = struct.pack("=HH", 4 + len(packed), kind) + packed
    return data + bytes(-len(data) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body


def address_of(index: int, *attributes: bytes, family: int = socket.AF_INET) -> bytes:
    return message(20, struct.pack("=BBBBI", family, 24, 0, 0, index) + b"".join(attributes))


DONE = message(3, bytes(4))
ONE, TWO = attribute(1, "10.0.0.1"), attribute(2, "10.0.0.2")
LO = {"10.0.0.1": "lo"}
DUMPS: dict[str, tuple[list[bytes], object]] = {
    "one": ([address_of(1, ONE) + DONE], LO),
    "point to point": ([address_of(1, ONE, TWO), DONE], {"10.0.0.2": "lo"}),
    "IPv6": ([address_of(1, attribute(1, "fd00::1"), family=socket.AF_INET6) + DONE], {"fd00::1": "lo"}),
    "a secondary one": ([address_of(1, ONE), address_of(1, TWO) + DONE], {**LO, "10.0.0.2": "lo"}),
    "no end": ([address_of(1, ONE)], LO),
    "refused": ([message(2, bytes(20))], {}),
    "an interface that is gone": ([address_of(999_999, ONE) + DONE], {}),
    "another family": ([address_of(1, ONE, family=socket.AF_PACKET) + DONE], {}),
    "garbage": ([b"\x01\x02", message(20, b"x"), DONE], {}),
    "silence": ([], {}),
}


@pytest.mark.parametrize(("packets", "found"), DUMPS.values(), ids=DUMPS)
def test_the_local_address_of_each_message_counts_and_nothing_raises(
    monkeypatch: pytest.MonkeyPatch, packets: list[bytes], found: object
) -> None:
    socket = MagicMock()
    monkeypatch.setattr("frameworkbarrier.files.interfaces.socket.socket", socket)
    kernel = socket.return_value.__enter__.return_value
    kernel.recv.side_effect = [*packets, TimeoutError]
    assert interfaces.read() == found
    request = kernel.send.call_args.args[0]
    assert struct.unpack_from("=IHHII", request)[:3] == (len(request), 22, 0x301)
    assert kernel.settimeout.call_args.args[0] > 0


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
    document = roster({"worker": 2})
    document["taskRoles"][0]["tasks"][1][1] = address
    made = files(document, "worker", 1, Container(interfaces=known), FB_PRESET="pytorch")
    found = read_env_file(made["env"].data.decode())
    assert (found.get("GLOO_SOCKET_IFNAME"), found.get("NCCL_SOCKET_IFNAME")) == (gloo, nccl)
