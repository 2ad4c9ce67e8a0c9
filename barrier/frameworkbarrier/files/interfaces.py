"""Which network interface holds which address of this Pod, asked of the kernel over rtnetlink.

All containers of a Pod share its network, so the barrier finds what an application would find. One dump has the
addresses of both families, secondary ones too, which an interface of a node can have (`hostNetwork`).
Source: rtnetlink(7), netlink(7).
"""

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping

_DONE, _ERROR, _NEW_ADDRESS, _GET_ADDRESS = 3, 2, 20, 22
_REQUEST_DUMP = 0x301
_ADDRESS, _LOCAL = 1, 2
_TIMEOUT_SEC = 1.0
_HEADER = struct.Struct("=IHHII")
_ADDRESS_HEADER = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")


def read() -> Mapping[str, str]:
    """Return the names of the interfaces by their addresses, in the form of `text.canonical_ip`; none if unknown."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, struct.error, ValueError):
        for index, address in _addresses():
            found[address] = socket.if_indextoname(index)
    return found


def _addresses() -> Iterator[tuple[int, str]]:
    """Yield each address with the index of its interface."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_TIMEOUT_SEC)
        body = _ADDRESS_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _GET_ADDRESS, _REQUEST_DUMP, 1, 0) + body)
        while True:
            for kind, message in _messages(kernel.recv(65536)):
                if kind in {_DONE, _ERROR}:
                    return
                if kind == _NEW_ADDRESS:
                    yield from _address(message)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(max(length, _HEADER.size)) :]


def _address(message: bytes) -> Iterator[tuple[int, str]]:
    """Yield the address of one message: the local one, which differs from the other on point-to-point links."""
    family, _, _, _, index = _ADDRESS_HEADER.unpack_from(message)
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return
    values: dict[int, bytes] = {}
    rest = message[_ADDRESS_HEADER.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        values[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[_aligned(max(length, _ATTRIBUTE.size)) :]
    packed = values.get(_LOCAL) or values.get(_ADDRESS)
    if packed:
        yield index, socket.inet_ntop(family, packed)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
