"""Where the gang can be seen, each source translated into the same `Look`.

A source is an endless iterator of looks and troubles; it ends only by raising why the gate can never open.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import roster
from .errors import GoneError
from .follow import Follower, Trouble
from .gang import Gang
from .kube import Api
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Look:
    """The gang as one look told, and the documents that go to the application as they were read."""

    gang: Gang
    roster_text: str
    framework: Mapping[str, Any] | None = None
    """The Framework object where the source read it."""


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

    def loaded(self, document: dict[str, Any]) -> Look | Trouble | None:
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


def observe(settings: Settings, api: Api) -> Iterator[Look | Trouble]:
    """Choose the source and follow it.

    Raises:
        GoneError: the Framework attempt is over.
        ForbiddenError: still forbidden after 30 s.
    """
    view = RosterView(settings.namespace, settings.configmap, settings.configmap_uid)
    for item in Follower(api, view, poll_sec=settings.interval_sec):
        if isinstance(item, Trouble):
            yield item
        else:
            yield item.value or Trouble(f"{view.what} carries no roster")
