"""What is followed at the API server, each kind translated into looks at the gang."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import framework, pods, roster
from .errors import GoneError
from .follow import Trouble
from .gang import Gang, Me, Role


@dataclass(frozen=True, slots=True)
class Look:
    """The gang as one look told, and the documents that go to the application as they were read."""

    gang: Gang
    roster_text: str
    framework: Mapping[str, Any] | None = None
    """The Framework object, decompressed, where the source read it."""


class Generations:
    """Counts the memberships of a source that has no generation of its own."""

    def __init__(self) -> None:
        self._number = 0
        self._members: tuple[Role, ...] = ()

    def stamp(self, gang: Gang) -> Gang:
        """The gang with a generation that grows whenever its complete membership differs from the last one."""
        if gang.complete and gang.roles != self._members:
            self._number += 1
            self._members = gang.roles
        return replace(gang, generation=self._number)


class RosterView:
    """The roster in the attempt's ConfigMap. None: the ConfigMap carries no roster (Microsoft's controller)."""

    def __init__(self, namespace: str, name: str, uid: str) -> None:
        collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self.read_path = f"{collection}/{name}"
        self.read_params: Mapping[str, str] = {}
        self.watch_path = collection
        self.watch_params: Mapping[str, str] = {"fieldSelector": f"metadata.name={name}"}
        self.what = f"ConfigMap {namespace}/{name}"
        self.rule = f'{{apiGroups: [""], resources: [configmaps], resourceNames: [{name}], verbs: [get, watch]}}'
        self._uid = uid

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Look | Trouble | None:  # noqa: ARG002
        """Read the roster out of the ConfigMap."""
        uid = str((document.get("metadata") or {}).get("uid") or "")
        if self._uid and uid and uid != self._uid:
            raise GoneError(f"{self.what} belongs to another attempt: this Pod's Framework attempt is over")
        try:
            text = roster.find(document)
            return None if text is None else Look(roster.decode(text), text)
        except roster.RosterError as fault:
            return Trouble(f"{self.what} has no usable roster: {fault}")

    def absent(self) -> Look | Trouble | None:
        """The controller makes the ConfigMap before any Pod, so its absence is the end."""
        raise GoneError(f"{self.what} is gone: this Pod's Framework attempt is over")

    def changed(self, kind: str, document: dict[str, Any]) -> Look | Trouble | None:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)


class FrameworkView:
    """The Framework object itself."""

    def __init__(self, namespace: str, name: str, uid: str, me: Me, attempt_id: int | None) -> None:
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
        self._uid = uid
        self._me = me
        self._attempt_id = attempt_id
        self._generations = Generations()

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Look | Trouble:  # noqa: ARG002
        """Read the gang out of the Framework."""
        uid = str((document.get("metadata") or {}).get("uid") or "")
        if self._uid and uid and uid != self._uid:
            raise GoneError(f"{self.what} was deleted and made anew: this Pod's is over")
        try:
            plain = framework.decompress(document)
            gang = self._generations.stamp(framework.gang_of(plain, self._me, self._attempt_id))
        except roster.RosterError as fault:
            return Trouble(f"{self.what} cannot be read: {fault}")
        return Look(gang, roster.encode(gang), plain)

    def absent(self) -> Look | Trouble:
        """Nobody makes a Framework anew for a Pod that runs already."""
        raise GoneError(f"{self.what} is gone")

    def changed(self, kind: str, document: dict[str, Any]) -> Look | Trouble:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)


class PodsView:
    """The Pods of a label selector."""

    def __init__(
        self,
        namespace: str,
        selector: str,
        roles: Mapping[str, int],
        role_label: str,
        *,
        arrived: bool,
        own_uid: str | None = None,
    ) -> None:
        self.read_path = self.watch_path = f"/api/v1/namespaces/{namespace}/pods"
        self.read_params: Mapping[str, str] = {"labelSelector": selector, "limit": "100"}
        self.watch_params: Mapping[str, str] = {"labelSelector": selector}
        self.what = f"Pods {selector!r} in {namespace}"
        self.rule = '{apiGroups: [""], resources: [pods], verbs: [list, watch]}'
        self._namespace = namespace
        self._roles = roles
        self._role_label = role_label
        self._arrived = arrived
        self._own_uid = own_uid
        self._peers: dict[str, pods.Peer] = {}
        self._generations = Generations()

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Look | Trouble:
        """Take one page of a list; `more`: it is not the first."""
        if not more:
            self._peers = {}
        for pod in document.get("items") or ():
            self._keep(pod)
        return self._look()

    def absent(self) -> Look | Trouble:
        """A list is never absent; the API server is not one, then."""
        return Trouble(f"{self.what}: the API server knows no Pods")

    def changed(self, kind: str, document: dict[str, Any]) -> Look | Trouble:
        """Take a watch event."""
        if kind == "DELETED":
            self._peers.pop(str(document["metadata"]["uid"]), None)
        else:
            self._keep(document)
        return self._look()

    def _keep(self, pod: Mapping[str, Any]) -> None:
        uid = str(pod["metadata"]["uid"])
        if uid == self._own_uid:
            pods.check_own(pod, self._roles, self._role_label)
        peer = pods.peer_of(pod, self._roles, self._role_label)
        if peer is None:
            self._peers.pop(uid, None)
        else:
            self._peers[peer.uid] = peer

    def _look(self) -> Look:
        gang = pods.gang_of(self._peers.values(), self._roles, self._namespace, arrived=self._arrived)
        gang = self._generations.stamp(gang)
        return Look(gang, roster.encode(gang))
