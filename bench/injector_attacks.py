"""Clients that try to take the injector's memory or its connections, and what it takes while each of them is at work.

Each attack comes from 16 addresses of loopback, as from 16 Pods. Meanwhile a client at another address sends reviews.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from injector_load import NAME, Client
from proc import memory_mib

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector_load import Server

SOURCES = 16
REVIEWS = 40
POST = f"POST /mutate HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: "
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Damage:
    """What an attack did.

    Attributes:
        peak: The most memory of the injector while the attack ran, in MiB.
        after: Its memory when all connections of the attack were closed, in MiB.
        failed: How many of `REVIEWS` reviews of another client failed meanwhile, each over a new connection.
        slowest: The slowest of these reviews in milliseconds, its TLS handshake included.
    """

    peak: float
    after: float
    failed: int
    slowest: float


async def _connections(count: int, port: int, context: ssl.SSLContext | None) -> list[Connection]:
    found: list[Connection] = []
    name = None if context is None else NAME
    for number in range(count):
        source = (f"127.0.1.{1 + number % SOURCES}", 0)
        with contextlib.suppress(OSError):
            found.append(
                await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name, local_addr=source)
            )
    return found


async def silent(target: Server) -> list[Connection]:
    """Open 3,500 connections without a handshake."""
    return await _connections(3500, target.port, None)


async def half_handshakes(target: Server) -> list[Connection]:
    """Begin 3,500 handshakes and do not end them."""
    found = []
    for _ in range(35):
        some = await _connections(100, target.port, None)
        for _, writer in some:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        found += some
    return found


async def garbage(target: Server) -> list[Connection]:
    """Send 3,500 handshakes that fail."""
    found = []
    for _ in range(35):
        some = await _connections(100, target.port, None)
        for _, writer in some:
            writer.write(b"\x16\x03\x01\x00\x05hello" * 10)
        found += some
    return found


async def spoke_once(target: Server) -> list[Connection]:
    """Keep 1,000 connections open that sent one request."""
    request = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "DELETE"}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    found = await _connections(1000, target.port, _context(target))
    for _, writer in found:
        writer.write((POST + f"{len(body)}\r\n\r\n").encode() + body)
    return found


async def half_bodies(target: Server) -> list[Connection]:
    """Send 300 bodies of 3 MiB without their last byte."""
    found = await _connections(300, target.port, _context(target))
    for _, writer in found:
        writer.write((POST + f"{3 * 1024 * 1024}\r\n\r\n").encode() + b" " * (3 * 1024 * 1024 - 1))
    return found


async def many_containers(target: Server) -> list[Connection]:
    """Send 64 Pods of 10,000 containers."""
    labels = {"frameworkcontroller.microsoft.com/barrier": "enabled", "FC_FRAMEWORK_NAME": "mnist"}
    annotations = {"barrier.frameworkcontroller.microsoft.com/preset": "pytorch"}
    containers = [{"name": f"a{number}", "image": "x" * 90, "command": ["x"]} for number in range(10_000)]
    pod: dict[str, Any] = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": containers},
    }
    request = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "n", "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review).encode()
    found = await _connections(64, target.port, _context(target))
    for _, writer in found:
        writer.write((POST + f"{len(body)}\r\n\r\n").encode() + body)
    return found


async def half_health_requests(target: Server) -> list[Connection]:
    """Send 4,000 heads without an end to the port of health and metrics."""
    found = await _connections(4000, target.health_port, None)
    for _, writer in found:
        writer.write(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 4000)
    return found


ATTACKS: tuple[Callable[[Server], Awaitable[list[Connection]]], ...] = (
    silent,
    half_handshakes,
    garbage,
    spoke_once,
    half_bodies,
    many_containers,
    half_health_requests,
)


def _context(target: Server) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=target.trust.decode())


async def attacked(target: Server, attack: Callable[[Server], Awaitable[list[Connection]]], body: bytes) -> Damage:
    """Run one attack twice, with reviews of another client in between, and measure."""
    pid = target.process.pid
    attacking = asyncio.create_task(attack(target))
    failed, slowest = 0, 0.0
    for _ in range(REVIEWS):
        client, started = Client(target, body), time.perf_counter()
        try:
            async with asyncio.timeout(5):
                await client.open()
                await client.call()
        except (OSError, EOFError, AssertionError):
            failed += 1
        else:
            slowest = max(slowest, time.perf_counter() - started)
            client.close()
        await asyncio.sleep(0.05)
    opened = [*await attacking, *await attack(target)]
    await asyncio.sleep(1)
    peak = memory_mib(pid, "VmHWM")
    for _, writer in opened:
        writer.transport.abort()
    await asyncio.sleep(1)
    return Damage(peak, memory_mib(pid, "VmRSS"), failed, slowest * 1000)


def all_attacks(target: Server, body: bytes) -> dict[str, Damage]:
    """Run each attack in turn against the same process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found = {}
    for attack in ATTACKS:
        # Resets the peak, VmHWM.
        Path(f"/proc/{target.process.pid}/clear_refs").write_text("5")
        found[attack.__name__] = asyncio.run(attacked(target, attack, body))
    return found
