"""Simulated nodes: Pods start, run and end as the lives of their Frameworks say, whatever becomes of the API server.

What runs on a node is remembered here and not read from the API server, so that a second instance of a Task, or a Pod
object that is removed while its containers run, is noticed.
"""

import random
import time

from frameworkcontroller.api import names
from localcluster.client import Json
from testkit.frameworks import Frameworks
from tests.chaos.journal import Journal
from tests.chaos.lives import COUNTED, End, Life
from tests.chaos.patience import api_faults_pass
from tests.support.beside.kubelet import Kubelet, ignore_vanished


class Nodes:
    """The nodes of all Pods of the namespace; `step` looks at all of them once.

    Attributes:
        failed: The UIDs of the Pods whose containers ended with a failure that retry policies count.
        ended: The UIDs of the Pods of which nothing runs any more, or ever ran.
        problems: What must not have happened.
    """

    def __init__(self, kubelet: Kubelet, frameworks: Frameworks, lives: dict[str, Life], journal: Journal) -> None:
        self._kubelet, self._frameworks, self._lives, self._journal = kubelet, frameworks, lives, journal
        self._running: dict[str, str] = {}
        self._fates: dict[str, End] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._ends: dict[str, int] = {}
        self.failed: set[str] = set()
        self.ended: set[str] = set()
        self.problems: list[str] = []

    def step(self) -> None:
        """Let each Pod make its next step, if it is time."""
        with api_faults_pass():
            pods = self._frameworks.pods()
            self._miss(pods)
            for pod in pods.values():
                with api_faults_pass(), ignore_vanished():
                    self._steer(pod)

    def _miss(self, pods: dict[str, Json]) -> None:
        """Notice Pods that are gone although their containers run."""
        for name, uid in list(self._running.items()):
            if name not in pods or pods[name]["metadata"]["uid"] != uid:
                self.problems.append(f"Pod {name} ({uid}) was removed at {self._journal.seconds:.1f} while it ran")
                del self._running[name]

    def _steer(self, pod: Json) -> None:
        meta = pod["metadata"]
        notes = meta.get("annotations", {})
        life = self._lives.get(notes.get(names.FRAMEWORK_NAME, ""))
        if life is None or names.TASK_ATTEMPT_ID not in notes:
            return
        name, uid, phase = meta["name"], meta["uid"], pod["status"].get("phase")
        if meta.get("deletionTimestamp"):
            if uid not in self._running.values() or self._is_time(uid, "stop", 0, 3):
                self._end(name, uid)
                self._kubelet.finish_deletion(pod)
        elif phase == "Pending":
            if self._is_time(uid, "start", 0, 2) and self._has_owner(meta):
                # Once it is bound, the API server keeps the Pod until this node says that nothing runs any more.
                bound = self._kubelet.bind(pod)
                self._start(name, uid)
                self._kubelet.run(bound)
        elif phase == "Running":
            fate = self._fates.get(uid)
            if fate is None:
                task = f"{notes[names.TASKROLE_NAME]}-{notes[names.TASK_INDEX]}"
                ended = self._ends.get(notes[names.TASK_UID], 0)
                fate = life.end(int(notes[names.FRAMEWORK_ATTEMPT_ID]), task, ended)
                if fate == "stay" or not self._is_time(uid, "run", 0.2, 4):
                    return
                self._fates[uid] = fate
                self._ends[notes[names.TASK_UID]] = ended + 1
                self._journal.counts[f"end {fate}"] += 1
            self._meet(pod, fate)

    def _has_owner(self, meta: Json) -> bool:
        """Report whether the ConfigMap of the Pod exists.

        Without it Kubernetes' garbage collector deletes the Pod, and it may remove one that is bound at that moment:
        it asks a second time without the version if the Pod has changed.
        """
        (owner,) = meta["ownerReferences"]
        path = f"/api/v1/namespaces/{self._frameworks.namespace}/configmaps/{owner['name']}"
        return bool(self._frameworks.raw.get(path)["metadata"]["uid"] == owner["uid"])

    def _meet(self, pod: Json, fate: End) -> None:
        """Let a Pod meet its end, again if the API server did not take it."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        path = f"/api/v1/namespaces/{self._frameworks.namespace}/pods/{name}"
        if fate not in {"vanish", "unlabel"}:
            self._end(name, uid)
        match fate:
            case "vanish":
                self._frameworks.raw.delete(path, {"preconditions": {"uid": uid}})
            case "unlabel":
                lost = {"uid": uid, "labels": {names.FRAMEWORK_NAME: None}}
                self._frameworks.raw.merge(path, {"metadata": lost})
            case "gone":
                self._kubelet.finish_deletion(pod)
            case "lost":
                self._kubelet.lose(pod)
            case 0:
                self._kubelet.succeed(pod)
            case int():
                if fate in COUNTED:
                    self.failed.add(uid)
                self._kubelet.fail(pod, fate)

    def _start(self, name: str, uid: str) -> None:
        other = self._running.get(name, uid)
        if other != uid:
            self.problems.append(f"{name}: {uid} starts at {self._journal.seconds:.1f} while {other} runs")
        self._running[name] = uid

    def _end(self, name: str, uid: str) -> None:
        self.ended.add(uid)
        if self._running.get(name) == uid:
            del self._running[name]

    def _is_time(self, uid: str, what: str, least: float, most: float) -> bool:
        """Report whether a Pod has waited long enough for its next step; the first call draws the time."""
        now = time.monotonic()
        if (uid, what) not in self._due:
            # UIDs differ from run to run, so these times do, too.
            self._due[uid, what] = now + random.uniform(least, most)
        return now >= self._due[uid, what]
