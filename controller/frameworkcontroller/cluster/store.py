"""The informer's cache: what was last seen of each object, and what has changed for whoever watches."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

_MAX_TOMBSTONES = 10_000
_NOTHING: Mapping[str, object] = MappingProxyType({})


class Metadata(Protocol):
    """What the cache reads of an object's metadata."""

    @property
    def name(self) -> str:
        """Unique in the namespace, at one time."""

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
Key = tuple[str, str]
Change = Callable[[T | None, T | None], None]


class Store(Generic[T]):
    """Objects by (namespace, name), with one optional index.

    Args:
        on_change: called after the store shows the change, with the object before and after. A replacement under the
            same name
            is two changes: the old one's end, then the new one's beginning.
        index: value of an object for `by_index`; None leaves it out.
    """

    def __init__(self, on_change: Change[T], index: Callable[[T], str | None] | None = None) -> None:
        self._on_change = on_change
        self._index_of = index
        self._objects: dict[Key, T] = {}
        self._index: dict[Key, dict[str, T]] = {}
        # UID -> resourceVersion of the deletion: an event that comes after it, but tells of before, raises nobody
        # from the dead.
        self._tombstones: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name, or None."""
        return self._objects.get((namespace, name))

    def by_index(self, namespace: str, value: str) -> Mapping[str, T]:
        """Objects of a namespace whose index value is `value`, by name: a live view, not to be kept over an await."""
        return self._index.get((namespace, value)) or _NOTHING  # type: ignore[return-value]

    def seen(self, new: T) -> bool:
        """Takes an object from an ADDED or MODIFIED event.

        Returns:
            False if it is older than what is known, and was ignored.
        """
        meta = new.metadata
        version = number(meta.resource_version)
        if 0 < version <= self._tombstones.get(meta.uid, -1):
            return False
        old = self._objects.get((meta.namespace, meta.name))
        if old is not None and 0 < version <= number(old.metadata.resource_version):
            return False
        self._put(old, new)
        return True

    def deleted(self, last: T) -> bool:
        """Takes an object from a DELETED event.

        Returns:
            False if what stands under that name is newer (a later instance, or this one, back in the selection), or if
            nothing stands there: nothing was changed.
        """
        meta = last.metadata
        old = self._objects.get((meta.namespace, meta.name))
        if old is not None and number(meta.resource_version) < number(old.metadata.resource_version):
            if old.metadata.uid != meta.uid:
                self._bury(meta)
            return False
        self._bury(meta)
        if old is None:
            return False
        # If it is an earlier instance, it has ended too, unseen: two cannot stand under one name.
        self._drop(old)
        self._on_change(old, None)
        return True

    def listed(self, new: T) -> None:
        """Takes an object from a complete, consistent list.

        It outranks whatever events said: a restored etcd goes back.
        """
        meta = new.metadata
        old = self._objects.get((meta.namespace, meta.name))
        if old is None or (old.metadata.uid, old.metadata.resource_version) != (meta.uid, meta.resource_version):
            self._put(old, new)

    def vanished(self, key: Key) -> None:
        """An object that a complete list does not show was deleted while nobody watched."""
        old = self._objects.get(key)
        if old is not None:
            self._drop(old)
            self._on_change(old, None)

    def keys(self) -> list[Key]:
        """(namespace, name) of all objects at this moment."""
        return list(self._objects)

    def forget_tombstones(self) -> None:
        """After a list: events are counted from there."""
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
        if self._index_of is not None and (value := self._index_of(new)) is not None:
            self._index.setdefault((meta.namespace, value), {})[meta.name] = new
        self._on_change(old, new)

    def _drop(self, old: T) -> None:
        meta = old.metadata
        del self._objects[meta.namespace, meta.name]
        if self._index_of is None or (value := self._index_of(old)) is None:
            return
        group = self._index[meta.namespace, value]
        del group[meta.name]
        if not group:
            del self._index[meta.namespace, value]

    def _bury(self, meta: Metadata) -> None:
        self._tombstones.pop(meta.uid, None)
        self._tombstones[meta.uid] = number(meta.resource_version)
        if len(self._tombstones) > _MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]


def number(resource_version: str) -> int:
    """A resourceVersion for comparing: a number by contract since Kubernetes 1.35, in practice always; else 0."""
    try:
        return int(resource_version)
    except ValueError:
        return 0
