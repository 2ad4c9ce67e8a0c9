"""The three things that a `Follower` follows, each translated into Observations of the gang. No requests are made here.

`choose` makes one view for the chosen source. A view takes what the API server answers and returns what that means: an
Observation, or a Fault if the roster cannot be used. It raises a `ShapeError` for what is no object of its kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from frameworkbarrier.errors import GoneError
from frameworkbarrier.gate.gang import Gang, Role
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.settings import Settings
from frameworkbarrier.shape import ShapeError, rows, table, word
from frameworkbarrier.source import framework, pods, roster
from frameworkbarrier.text import one_line

T = TypeVar("T")


class View(ABC, Generic[T]):
    """What is followed: one object by name, or the objects of a selector.

    Attributes:
        what: For messages: `ConfigMap ns/name`.
        rule: The RBAC rule that reading it needs, for messages.
        is_to_come: It may be created, and reading it allowed, at any time: neither 403 nor 404 ends the wait.
    """

    def __init__(
        self, settings: Settings, what: str, rule: str, collection: str, watch_params: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self.what, self.rule, self.is_to_come = what, rule, False
        self.read_path = self.watch_path = collection
        self.watch_params, self.read_params = watch_params, dict[str, str]()
        self._generation = 0
        self._members: tuple[Role, ...] = ()

    @abstractmethod
    def loaded(self, document: dict[str, Any], *, more: bool = False) -> T:
        """Take the answer of a get, or a page of a list; `more`: it is not the first."""

    @abstractmethod
    def absent(self) -> T:
        """Take the answer 404."""

    def changed(self, kind: str, document: dict[str, Any]) -> T:
        """Take a watch event."""
        return self.absent() if kind == "DELETED" else self.loaded(document)

    def _observe(self, gang: Gang, framework: Mapping[str, Any] | None = None) -> Observation:
        """Observe a gang without a roster: its generation grows whenever the complete membership changes."""
        if gang.complete and gang.roles != self._members:
            self._generation += 1
            self._members = gang.roles
        gang = replace(gang, generation=self._generation)
        return Observation(gang, roster.encode(gang), framework)


class _ObjectView(View[T]):
    """One object, whose UID must be this one if both are known; otherwise it is gone, as `another` says."""

    kind: str
    group: str
    api: str
    resource: str
    another: str

    def __init__(self, settings: Settings, name: str, uid: str) -> None:
        names = f"resources: [{self.resource}], resourceNames: [{name}]"
        super().__init__(
            settings,
            f"{self.kind} {settings.namespace}/{name}",
            f"{{apiGroups: [{self.group}], {names}, verbs: [get, watch]}}",
            f"{self.api}/namespaces/{settings.namespace}/{self.resource}",
            {"fieldSelector": f"metadata.name={name}"},
        )
        self.read_path = f"{self.watch_path}/{name}"
        self._name, self._uid = name, uid

    def _check_identity(self, document: dict[str, Any]) -> None:
        meta = table(document.get("metadata"), "metadata")
        for field, expected in (("namespace", self._settings.namespace), ("name", self._name)):
            if meta.get(field) != expected:
                raise ShapeError(f"metadata.{field}: is {one_line(repr(meta.get(field)), 80)}, not {expected!r}")
        uid = word(meta.get("uid"), "metadata.uid")
        if self._uid and uid and uid != self._uid:
            raise GoneError(f"{self.what} {self.another}")


class RosterView(_ObjectView[Observation | Fault | None]):
    """The roster in the attempt's ConfigMap. None: the ConfigMap carries no roster (Microsoft's controller)."""

    kind, group, api, resource = "ConfigMap", '""', "/api/v1", "configmaps"
    another = "belongs to another attempt: this Pod's Framework attempt is over"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, settings.configmap, settings.configmap_uid)
        self.is_to_come = bool(settings.roster)

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault | None:  # noqa: ARG002 -- the signature of the view
        """Read the roster out of the ConfigMap."""
        self._check_identity(document)
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


class FrameworkView(_ObjectView[Observation | Fault]):
    """The Framework object itself."""

    kind, group, api, resource = "Framework", "frameworkcontroller.microsoft.com", framework.API, "frameworks"
    another = "was deleted and created again: this Pod's Framework is gone"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, settings.framework, settings.framework_uid)

    def decompressed(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the object decompressed, once it is found to be the Framework of this Pod."""
        self._check_identity(document)
        return framework.decompress(document)

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault:  # noqa: ARG002 -- the signature of the view
        """Read the gang out of the Framework."""
        plain = self.decompressed(document)
        gang = framework.gang_of(plain, self._settings.own_task, self._settings.attempt_id)
        # That of a large gang is most of the barrier's memory, which would hold two of them whenever the next arrives.
        kept = plain if self._settings.wants_framework(gang.total) else None
        return self._observe(gang, kept)

    def absent(self) -> Observation | Fault:
        """End the wait: a Framework of the same name that is created later has other Pods."""
        raise GoneError(f"{self.what} is gone")


class PodsView(View[Observation | Fault]):
    """The Pods of a label selector."""

    def __init__(self, settings: Settings, namespace: str) -> None:
        super().__init__(
            settings,
            f"Pods {settings.selector!r} in {namespace}",
            '{apiGroups: [""], resources: [pods], verbs: [list, watch]}',
            f"/api/v1/namespaces/{namespace}/pods",
            {"labelSelector": settings.selector},
        )
        self.read_params = {**self.watch_params, "limit": "100"}
        self._namespace = namespace
        self._peers: dict[str, pods.Peer] = {}

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> Observation | Fault:
        """Take one page of a list; `more`: it is not the first."""
        if "items" not in document:
            raise ShapeError("items: is not there")
        if not more:
            self._peers = {}
        for pod in rows(document.get("items"), "items"):
            self._keep(pod)
        return self._observe(self._gang())

    def absent(self) -> Observation | Fault:
        """Report a fault: an API server always has a list of Pods."""
        return Fault(f"{self.what}: the API server has no Pods")

    def changed(self, kind: str, document: dict[str, Any]) -> Observation | Fault:
        """Take a watch event."""
        if kind == "DELETED":
            self._peers.pop(pods.uid_of(document), None)
        else:
            self._keep(document)
        return self._observe(self._gang())

    def _keep(self, pod: Mapping[str, Any]) -> None:
        uid, roles, label = pods.uid_of(pod), self._settings.roles, self._settings.role_label
        if uid == self._settings.uid:
            pods.check_own(pod, roles, label)
        peer = pods.peer_of(pod, roles, label, self._settings.wait_for)
        if peer is None:
            self._peers.pop(uid, None)
        else:
            self._peers[uid] = peer

    def _gang(self) -> Gang:
        return pods.gang_of(self._peers.values(), self._settings.roles, self._namespace)
