"""The archive of a world: it reads the logs of Pods that have ended, and lets go of a Framework that is deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frameworkcontroller.api import names
from frameworkcontroller.core.effects import Told
from frameworkcontroller.core.machines.retention import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from tests.controller.core.world import World


class Archive:
    """As quick, or as far away, as the plan says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ended: dict[str, datetime] = {}
        """When Pods were seen to have ended, by UID."""
        self.asked = 0

    def live(self) -> bool:
        """A second passes. Returns whether anything changed for others."""
        world = self._world
        for pod in world.pods.values():
            if has_ended(pod):
                self.ended.setdefault(pod.metadata.uid, world.now)
        others = [one for one in world.finalizers if one != names.HISTORY_FINALIZER]
        lets_go = "deletionTimestamp" in world.manifest["metadata"] and len(others) < len(world.finalizers)
        if world.plan.away or not lets_go:
            return False
        world.change_finalizers(others)
        return True

    def has_read(self, uid: str) -> bool:
        """Whether it has the log, of a Pod that it has seen to end."""
        ended = self.ended.get(uid)
        return ended is not None and (self._world.now - ended).total_seconds() >= self._world.plan.read_seconds

    def answer(self, uids: Iterable[str]) -> Told:
        self.asked += 1
        there = {pod.metadata.uid for pod in self._world.pods.values()}
        kept = [uid for uid in uids if uid not in there or self.has_read(uid)]
        return Told(None if self._world.plan.away else json.dumps({"kept": kept}).encode())
