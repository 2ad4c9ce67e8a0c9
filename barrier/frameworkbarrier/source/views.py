"""The three things that a `Follower` follows, each translated into Observations of the gang. No requests are made here.

`choose` makes one view for the chosen source. A view takes what the API server answers and returns what that means: an
Observation, or a Fault if the roster cannot be used. It raises a `ShapeError` for what is no object of its kind.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frameworkbarrier.errors import GoneError
from frameworkbarrier.gate.gang import Gang, Role
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.settings import Settings
from frameworkbarrier.shape import ShapeError, rows, table, word
from frameworkbarrier.source import framework, pods, roster
from frameworkbarrier.text import one_line


class Generations:
    """Counts the memberships of a source that has no generation of its own."""

    def __init__(self) -> None:
        self._number = 0
        self._members: tuple[Role, ...] = ()

    def stamp(self, gang: Gang) -> Gang:
        """Return the gang with a generation that grows whenever the complete membership differs from the last one."""
        if gang.complete and gang.roles != self._members:
            self._number += 1
            self._members = gang.roles
        return replace(gang, generation=self._number)


def _uid_of(document: dict[str, Any], namespace: str, name: str) -> str:
    """Return the UID of an object, which must be the one of this name."""
    meta = table(document.get("metadata"), "metadata")
    for field, expected in (("namespace", namespace), ("name", name)):
        if meta.get(field) != expected:
            raise ShapeError(f"metadata.{field}: is {one_line(repr(meta.get(field)), 80)}, not {expected!r}")
    return word(meta.get("uid"), "metadata.uid")


class RosterView:
    """The roster in the attempt's ConfigMap. None: the ConfigMap carries no roster (Microsoft's controller)."""

    def __init__(self, settings: Settings) -> None:
        namespace, name = settings.namespace, settings.configmap
        collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self.read_path = f"{collection}/{name}"
        self.read_params: Mapping[str, str] = {}
        self.watch_path = collection
        self.watch_params: Mapping[str, str] = {"fieldSelector": f"metadata.name={name}"}
        self.what = f"ConfigMap {namespace}/{name}"
        self.rule = f'{{apiGroups: [""], resources: [configmaps], resourceNames: [{name}], verbs: [get, watch]}}'
        self._settings = settings
        self.is_to_come = bool(settings.roster)

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault | None:  # noqa: ARG002 -- the protocol's signature
        """Read the roster out of the ConfigMap."""
        uid = _uid_of(document, self._settings.namespace, self._settings.configmap)
        if self._settings.configmap_uid and uid and uid != self._settings.configmap_uid:
            raise GoneError(f"{self.what} belongs to another attempt: this Pod's Framework attempt is over")
        try:
            text = roster.find(document)
            if text is None:
                return self.absent() if self.is_to_come else None
            gang = roster.decode(text)
            roster.check_owner(gang, self._settings)
            return Observation(gang, text)
        except roster.RosterError as fault:
            return Fault(f"{self.what} has no usable roster: {fault}")

    def absent(self) -> Observation | Fault | None:
        """End the wait, unless it is to come: else the controller creates it before any Pod."""
        if self.is_to_come:
            return Fault(f"{self.what} with the roster is not there yet: is foreignGangs enabled in the controller?")
        raise GoneError(f"{self.what} is gone: this Pod's Framework attempt is over")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault | None:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)


class FrameworkView:
    """The Framework object itself."""

    is_to_come = False

    def __init__(self, settings: Settings) -> None:
        namespace, name = settings.namespace, settings.framework
        collection = f"{framework.API}/namespaces/{namespace}/frameworks"
        self.read_path = f"{collection}/{name}"
        self.read_params: Mapping[str, str] = {}
        self.watch_path = collection
        self.watch_params: Mapping[str, str] = {"fieldSelector": f"metadata.name={name}"}
        self.what = f"Framework {namespace}/{name}"
        self.rule = (
            "{apiGroups: [frameworkcontroller.microsoft.com], resources: [frameworks], "
            f"resourceNames: [{name}], verbs: [get, watch]}}"
        )
        self._settings = settings
        self._generations = Generations()

    def decompressed(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the object decompressed, once it is found to be the Framework of this Pod."""
        uid = _uid_of(document, self._settings.namespace, self._settings.framework)
        if self._settings.framework_uid and uid and uid != self._settings.framework_uid:
            raise GoneError(f"{self.what} was deleted and created again: this Pod's Framework is gone")
        return framework.decompress(document)

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault:  # noqa: ARG002 -- the protocol's signature
        """Read the gang out of the Framework."""
        plain = self.decompressed(document)
        gang = framework.gang_of(plain, self._settings.own_task, self._settings.attempt_id)
        gang = self._generations.stamp(gang)
        # That of a large gang is most of the barrier's memory, which would hold two of them whenever the next arrives.
        kept = plain if self._settings.wants_framework(gang.total) else None
        return Observation(gang, roster.encode(gang), kept)

    def absent(self) -> Observation | Fault:
        """End the wait: a Framework of the same name that is created later has other Pods."""
        raise GoneError(f"{self.what} is gone")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)


class PodsView:
    """The Pods of a label selector."""

    is_to_come = False

    def __init__(self, settings: Settings, namespace: str) -> None:
        self.read_path = self.watch_path = f"/api/v1/namespaces/{namespace}/pods"
        self.watch_params: Mapping[str, str] = {"labelSelector": settings.selector}
        self.read_params: Mapping[str, str] = {**self.watch_params, "limit": "100"}
        self.what = f"Pods {settings.selector!r} in {namespace}"
        self.rule = '{apiGroups: [""], resources: [pods], verbs: [list, watch]}'
        self._settings, self._namespace = settings, namespace
        self._peers: dict[str, pods.Peer] = {}
        self._generations = Generations()

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault:
        """Take one page of a list; `more`: it is not the first."""
        if "items" not in document:
            raise ShapeError("items: is not there")
        if not more:
            self._peers = {}
        for pod in rows(document.get("items"), "items"):
            self._keep(pod)
        return self._observe()

    def absent(self) -> Observation | Fault:
        """Report a fault: an API server always has a list of Pods."""
        return Fault(f"{self.what}: the API server has no Pods")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault:
        """Take a watch event."""
        if kind == "DELETED":
            self._peers.pop(pods.uid_of(document), None)
        else:
            self._keep(document)
        return self._observe()

    def _keep(self, pod: Mapping[str, Any]) -> None:
        uid, roles, label = pods.uid_of(pod), self._settings.roles, self._settings.role_label
        if uid == self._settings.uid:
            pods.check_own(pod, roles, label)
        peer = pods.peer_of(pod, roles, label, self._settings.wait_for)
        if peer is None:
            self._peers.pop(uid, None)
        else:
            self._peers[uid] = peer

    def _observe(self) -> Observation:
        gang = self._generations.stamp(pods.gang_of(self._peers.values(), self._settings.roles, self._namespace))
        return Observation(gang, roster.encode(gang))
