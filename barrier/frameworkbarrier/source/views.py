"""The three things that a `Follower` follows, each translated into Observations of the gang. No requests are made here.

`choose` makes one view for the chosen source. A view takes what the API server answers and returns what that means: an
Observation, or a Fault if the roster cannot be used. It raises a `ShapeError` for what is no object of its kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from frameworkbarrier.errors import GoneError
from frameworkbarrier.gate.gang import Gang, Role
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.settings import OwnTask, Settings
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

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault | None:  # noqa: ARG002 -- the protocol's signature
        """Read the roster out of the ConfigMap."""
        uid = _uid_of(document, self._settings.namespace, self._settings.configmap)
        if self._settings.configmap_uid and uid and uid != self._settings.configmap_uid:
            raise GoneError(f"{self.what} belongs to another attempt: this Pod's Framework attempt is over")
        try:
            text = roster.find(document)
            if text is None:
                return None
            gang = roster.decode(text)
            roster.check_owner(gang, self._settings)
            return Observation(gang, text)
        except roster.RosterError as fault:
            return Fault(f"{self.what} has no usable roster: {fault}")

    def absent(self) -> Observation | Fault | None:
        """End the wait: the controller creates the ConfigMap before any Pod and deletes it after the attempt."""
        raise GoneError(f"{self.what} is gone: this Pod's Framework attempt is over")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault | None:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)


class FrameworkView:
    """The Framework object itself."""

    def __init__(
        self,
        namespace: str,
        name: str,
        uid: str,
        own_task: OwnTask,
        attempt_id: int | None,
        keeps: Callable[[Gang], bool] = lambda _gang: True,
    ) -> None:
        """Prepare to follow a Framework.

        Args:
            namespace: of the Framework.
            name: of the Framework.
            uid: of the Framework; "": any.
            own_task: who this Pod is.
            attempt_id: the Framework attempt that this Pod belongs to, if it is known.
            keeps: whether an Observation keeps the whole object. That of a large Framework is most of the memory of
                the barrier, which would hold two of them whenever the next one arrives.
        """
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
        self._namespace, self._name = namespace, name
        self._uid = uid
        self._own_task = own_task
        self._attempt_id = attempt_id
        self._keeps = keeps
        self._generations = Generations()

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault:  # noqa: ARG002 -- the protocol's signature
        """Read the gang out of the Framework."""
        uid = _uid_of(document, self._namespace, self._name)
        if self._uid and uid and uid != self._uid:
            raise GoneError(f"{self.what} was deleted and created again: this Pod's Framework is gone")
        plain = framework.decompress(document)
        gang = self._generations.stamp(framework.gang_of(plain, self._own_task, self._attempt_id))
        return Observation(gang, roster.encode(gang), plain if self._keeps(gang) else None)

    def absent(self) -> Observation | Fault:
        """End the wait: a Framework of the same name that is created later has other Pods."""
        raise GoneError(f"{self.what} is gone")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault:
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
        wait_for: str,
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
        self._wait_for = wait_for
        self._own_uid = own_uid
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
        uid = pods.uid_of(pod)
        if uid == self._own_uid:
            pods.check_own(pod, self._roles, self._role_label)
        peer = pods.peer_of(pod, self._roles, self._role_label)
        if peer is None:
            self._peers.pop(uid, None)
        else:
            self._peers[peer.uid] = peer

    def _observe(self) -> Observation:
        gang = pods.gang_of(self._peers.values(), self._roles, self._namespace, self._wait_for)
        gang = self._generations.stamp(gang)
        return Observation(gang, roster.encode(gang))
