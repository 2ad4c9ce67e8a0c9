"""Writes the snapshots of history (`core.pods.snapshots`) as lines of the log."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.pod import POD_DECODER
from frameworkcontroller.core.pods import snapshots
from frameworkcontroller.core.pods.snapshots import HistoryCause, Lines, Snapshot
from frameworkcontroller.engine.observe.log import LineWriter

# How long a status waits for the history that it may overwrite.
WRITTEN_SECONDS: Final = 0.1
REMEMBERED_PODS: Final = 1024
IN_A_ROW: Final = 64
"""Snapshots that are handed to the writer before others have their turn."""


class History:
    """The snapshots of one term of leadership that have these triggers; lines go by Framework."""

    def __init__(self, lines: LineWriter, triggers: Collection[HistoryCause]) -> None:
        self._lines, self._triggers = lines, triggers
        self._made = Lines()
        # The UIDs of Pods whose last state was written, and whether they were being deleted then.
        self._gone_pods: OrderedDict[str, bool] = OrderedDict()

    def write_pass(self, namespace: str, name: str, taken: Iterable[Snapshot]) -> Iterator[asyncio.Future[None]]:
        """Write the snapshots of a pass over this Framework, all of which keep one state of it.

        Yields:
            What is done when all are written, again and again until they are with the writer; nobody waits long for a
            reader that is slow.
        """
        wanted = [snapshot for snapshot in taken if snapshot.cause in self._triggers]
        loop = asyncio.get_running_loop()
        written = loop.create_future()

        def end() -> None:
            if not written.done():
                written.set_result(None)

        for place, snapshot in enumerate(wanted, 1):
            is_last = place == len(wanted)
            done = partial(loop.call_soon_threadsafe, end) if is_last else None
            self._write(namespace, name, snapshot, done=done, is_last=is_last)
            if is_last:
                loop.call_later(WRITTEN_SECONDS, end)
            if is_last or place % IN_A_ROW == 0:
                yield written

    def _write(
        self,
        namespace: str,
        name: str,
        snapshot: Snapshot,
        framework: str = "",
        done: Callable[[], object] | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        """Write a snapshot of the object of this name, which is, or belongs to, the Framework."""
        if snapshot.cause not in self._triggers:
            return
        size = snapshot.size
        if snapshot.seen is not None and is_last:
            # The snapshots of one pass keep one state of the Framework. The last line keeps it longest: lines are
            # written and dropped in their order.
            size += snapshot.seen.size
        line = partial(self._made.of, f"{namespace}/{name}", snapshot)
        self._lines.put(line, size, f"{namespace}/{framework or name}", done)

    def write_framework(self, last: Framework) -> None:
        """Write the last state of a Framework that was deleted."""
        if last.has_status:
            # As it was stored: a status that cannot be decoded belongs to the history, too.
            meta, snapshot = last.metadata, snapshots.of_framework(HistoryCause.FRAMEWORK_DELETION, last, last.status)
            self._write(meta.namespace, meta.name, snapshot)

    def write_pod(self, document: bytes) -> None:
        """Write the last state of a Pod that was deleted or has lost its label, as JSON."""
        meta = POD_DECODER.decode(document).metadata
        framework, owner = meta.labels.framework or "", meta.controller
        if owner is None or owner.name != names.config_map_name(framework) or self._is_known(meta):
            return  # it is somebody else's, or somebody takes its label off and on, at no cost
        typed = b'{"apiVersion":"v1","kind":"Pod",' + document.lstrip()[1:]
        whole = document if b'"kind":"Pod"' in document else typed
        self._write(meta.namespace, meta.name, snapshots.of_pod(whole), framework)

    def _is_known(self, meta: Meta) -> bool:
        """Report whether the last state of a Pod was written, and note that it is: of one that is deleted once more."""
        was_going, is_going = self._gone_pods.pop(meta.uid, None), meta.deletion_timestamp is not None
        self._gone_pods[meta.uid] = bool(was_going) or is_going
        if len(self._gone_pods) > REMEMBERED_PODS:
            self._gone_pods.popitem(last=False)
        return was_going is not None and was_going >= is_going
