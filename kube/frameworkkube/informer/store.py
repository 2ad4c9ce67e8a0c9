"""The informer's cache: the last known state of each object, and a call for each change.

`contents` feeds it with the objects of lists and watch events, in the order of their arrival.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_MAX_TOMBSTONES = 10_000


class Metadata(Protocol):
    """The part of an object's metadata that the cache reads."""

    @property
    def name(self) -> str:
        """Unique in the namespace at any one time."""

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""

    @property
    def uid(self) -> str:
        """Unique for ever: the object's identity."""

    @property
    def resource_version(self) -> str:
        """Grows with each change of the object."""


class HasMetadata(Protocol):
    """Any cached object."""

    @property
    def metadata(self) -> Metadata:
        """See `Metadata`."""


T = TypeVar("T", bound=HasMetadata)
ObjectKey = tuple[str, str]
Change = Callable[[T | None, T | None], None]


class Store(Generic[T]):
    """Objects by (namespace, name).

    Args:
        on_change: called after the store shows the change, with the object before and after. A replacement under the
            same name is two changes: the end of the old object, then the beginning of the new one.
    """

    def __init__(self, on_change: Change[T]) -> None:
        self._on_change = on_change
        self._objects: dict[ObjectKey, T] = {}
        # UID -> resourceVersion of the deletion: an older event that arrives later must not bring the object back.
        self._tombstones: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object of that name, or None."""
        return self._objects.get((namespace, name))

    def seen(self, new: T) -> None:
        """Store an object from an ADDED or MODIFIED event, unless a newer state of it is known."""
        meta = new.metadata
        version = version_number(meta.resource_version)
        if 0 < version <= self._tombstones.get(meta.uid, -1):
            return
        old = self._objects.get((meta.namespace, meta.name))
        if old is None or not 0 < version <= version_number(old.metadata.resource_version):
            self._put(old, new)

    def deleted(self, last: T) -> bool:
        """Remove an object because of a DELETED event, and report whether that changed anything.

        It does not if no object of that name is stored, or a newer one: a later instance, or this one, back in the
        selection.
        """
        meta = last.metadata
        old = self._objects.get((meta.namespace, meta.name))
        if old is not None and version_number(meta.resource_version) < version_number(old.metadata.resource_version):
            if old.metadata.uid != meta.uid:
                self._bury(meta)
            return False
        self._bury(meta)
        if old is None:
            return False
        # An earlier instance has ended too, unseen: two objects cannot have one name.
        self._drop(old)
        self._on_change(old, None)
        return True

    def listed(self, new: T) -> None:
        """Store an object from a complete, consistent list, which outranks all events that came before it."""
        meta = new.metadata
        old = self._objects.get((meta.namespace, meta.name))
        if old is None or (old.metadata.uid, old.metadata.resource_version) != (meta.uid, meta.resource_version):
            self._put(old, new)

    def vanished(self, key: ObjectKey) -> None:
        """Remove an object that a complete list does not have: it was deleted while no watch was open."""
        old = self._objects.get(key)
        if old is not None:
            self._drop(old)
            self._on_change(old, None)

    def replace(self, same: T) -> None:
        """Keep another form of the stored object, unless that is another state of it; no handler is called."""
        meta = same.metadata
        old = self._objects.get((meta.namespace, meta.name))
        if old is not None and (old.metadata.uid, old.metadata.resource_version) == (meta.uid, meta.resource_version):
            self._objects[meta.namespace, meta.name] = same

    def keys(self) -> list[ObjectKey]:
        """Return namespace and name of all objects at this moment."""
        return list(self._objects)

    def forget_tombstones(self) -> None:
        """Forget deletions, after a list: later events start from there."""
        self._tombstones.clear()

    def _put(self, old: T | None, new: T) -> None:
        if old is not None:
            self._drop(old)
            if old.metadata.uid != new.metadata.uid:
                self._bury(old.metadata)
                self._on_change(old, None)
                old = None
        meta = new.metadata
        self._objects[meta.namespace, meta.name] = new
        self._on_change(old, new)

    def _drop(self, old: T) -> None:
        meta = old.metadata
        del self._objects[meta.namespace, meta.name]

    def _bury(self, meta: Metadata) -> None:
        self._tombstones.pop(meta.uid, None)
        self._tombstones[meta.uid] = version_number(meta.resource_version)
        if len(self._tombstones) > _MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]


def version_number(resource_version: str) -> int:
    """Return a resourceVersion as a number, or 0; comparable by contract since Kubernetes 1.35, in practice always."""
    try:
        return int(resource_version)
    except ValueError:
        return 0
