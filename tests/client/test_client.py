"""The client for code without an event loop: what ends its calls, and from where it can be used."""

import asyncio
import gc
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from frameworkclient import ArgumentError, Client, ClientError, FrameworkView
from testkit.waiting import patience
from tests.client.documents import framework, role
from tests.client.played import FRAMEWORKS, PlayedServer
from tests.support.kubeconfig import kubeconfig

VIEW = framework(role("worker", 1))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(kubeconfig=kubeconfig(tmp_path / "config")) as made:
        yield made


def watched(client: Client, then: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have each watch yield one view, do this, and wait; return what is set when a watch has been closed."""
    closed = threading.Event()

    async def views(*_: Any, **__: Any) -> AsyncGenerator[FrameworkView, None]:
        try:
            yield VIEW
            then()
            await asyncio.Event().wait()
        finally:
            for _turn in range(100):
                await asyncio.sleep(0)
            closed.set()

    monkeypatch.setattr(client._client, "watch", views)
    return closed


def test_ctrl_c_in_a_watch_is_a_keyboard_interrupt_when_its_connection_is_closed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def press() -> None:
        # Once the main thread waits for it.
        asyncio.get_running_loop().call_later(0.2, signal.pthread_kill, main, signal.SIGINT)

    closed = watched(client, press, monkeypatch)
    # What runs these tests in the background may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(client.watch("training"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert closed.is_set()


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "the call ends before the client is closed"])
def test_a_call_in_another_thread_ends_when_the_client_is_closed(
    client: Client, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    waits, raised = threading.Event(), list[Exception]()
    watched(client, waits.set, monkeypatch)
    begin = client._begin

    def late(work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = begin(work)
        if is_late and work.__name__ == "_end":
            time.sleep(0.2)
        return future

    monkeypatch.setattr(client, "_begin", late)

    def watch() -> None:
        try:
            list(client.watch("training"))
        except ClientError as error:
            raised.append(error)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert waits.wait(patience(10))
    client.close()
    thread.join(patience(10))
    assert [str(error) for error in raised] == ["the client was closed by another thread, before the answer came"]
    with pytest.raises(ClientError, match=r"^the client is closed$"):
        client.get("training")


def test_an_iterator_that_was_left_is_closed_also_by_a_collection_in_the_thread_of_the_client(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = watched(client, lambda: None, monkeypatch)
    views = client.watch("training")
    next(views)
    cycle: list[Any] = [views]
    cycle.append(cycle)
    gc.disable()
    try:
        del views, cycle
        client._loop.call_soon_threadsafe(gc.collect)
        assert closed.wait(patience(10))
    finally:
        gc.enable()


async def test_a_function_that_a_wait_calls_cannot_use_its_client(tmp_path: Path) -> None:
    server = PlayedServer()
    await server.put(FRAMEWORKS, VIEW.to_dict())

    def wait(config: str) -> None:
        with (
            Client(kubeconfig=config, namespace="demo") as client,
            pytest.raises(ArgumentError, match="look at the Framework"),
        ):
            client.wait("training", for_=lambda _: bool(client.pods("training")))

    async with server.serving() as url:
        await asyncio.to_thread(wait, kubeconfig(tmp_path / "config", cluster={"server": url}))
