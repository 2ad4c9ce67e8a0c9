"""What an informer's cache has of its collection: objects that decode, those that do not, and a call for each change.

`informer` feeds it with the items of lists and the events of watches, decodable or not, in the order of their arrival.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from frameworkkube.informer.store import Change, HasMetadata, ObjectKey, Store
from frameworkkube.informer.watch_events import Event, EventType, UndecodableObject
from frameworkkube.log import Logger

_log = Logger(__name__)

T = TypeVar("T", bound=HasMetadata)
_MOST_REPORTED = 1000


class Contents(Generic[T]):
    """The objects of one collection, and the handlers of their changes; see `Informer` for the arguments.

    What a handler raises is logged and counted, and loses only that call.

    Attributes:
        store: the last state of each that decoded, to read and to `replace`; all else goes through the methods here.
        failures: of handlers.
        undecodable: the objects that exist and do not decode; the store has their last state that did, or nothing.
    """

    def __init__(
        self,
        path: str,
        on_change: Change[T],
        keep: Callable[[T], T] | None,
        on_deleted: Callable[[T, bytes | None], None] | None,
        on_undecodable: Callable[[UndecodableObject], None] | None,
        *,
        keeps_last: bool,
    ) -> None:
        self._path = path
        self._keep: Callable[[T], T] = keep or (lambda found: found)
        self._on_change, self._on_deleted = on_change, on_deleted
        self._watched: bytes | None = None
        """The JSON of the object whose deletion a watch shows."""
        self._on_undecodable, self._keeps_last = on_undecodable, keeps_last
        self.store: Store[T] = Store(self._changed)
        self._reported: set[str] = set()
        self.failures = 0
        self.undecodable: dict[ObjectKey, UndecodableObject] = {}

    def keys(self) -> set[ObjectKey]:
        """Return namespace and name of all objects at this moment."""
        return {*self.store.keys(), *self.undecodable}

    def listed(self, item: T | UndecodableObject) -> None:
        """Take over an item of a complete, consistent list."""
        self.undecodable.pop(key_of(item), None)
        if isinstance(item, UndecodableObject):
            self._skip(item)
        else:
            self.store.listed(self._keep(item))

    def end_list(self, vanished: set[ObjectKey]) -> None:
        """End a list that has shown all objects but these."""
        for key in vanished:
            self.undecodable.pop(key, None)
            self.store.vanished(key)
        self.store.forget_tombstones()

    def apply(self, event: Event[T]) -> None:
        """Apply an event of a watch; a bookmark changes nothing."""
        found = event.object
        if found is not None:
            self.undecodable.pop(key_of(found), None)
        match event.type:
            case EventType.BOOKMARK:
                pass
            case _ if isinstance(found, UndecodableObject):
                self._skip(found, deleted=event.type == EventType.DELETED)
            case EventType.ADDED | EventType.MODIFIED if found is not None:
                self.store.seen(self._keep(found))
            case EventType.DELETED if found is not None:
                self._watched = event.raw
                self.store.deleted(found)
                self._watched = None
            case unknown:
                self._report(f"type {unknown}", "watch event of unknown type ignored", type=unknown)

    def _skip(self, skipped: UndecodableObject, *, deleted: bool = False) -> None:
        """Skip an object that does not decode; with `keeps_last` an earlier state of it stays in the store."""
        identity, key = skipped.identity, key_of(skipped)
        if not deleted:
            self.undecodable[key] = skipped
        is_news = self._report(
            f"{identity.uid} {skipped.reason}",
            "cannot decode an object, it is left out",
            namespace=identity.namespace,
            name=identity.name,
            error=skipped.reason,
        )
        if is_news and self._on_undecodable is not None:
            self._call(self._on_undecodable, skipped)
        known = self.store.get(*key)
        if known is not None and (deleted or not self._keeps_last or known.metadata.uid != identity.uid):
            self.store.vanished(key)

    def _changed(self, old: T | None, new: T | None) -> None:
        self._call(self._on_change, old, new)
        if new is None and self._on_deleted is not None:
            self._call(self._on_deleted, old, self._watched)

    def _call(self, handler: Callable[..., None], *arguments: object) -> None:
        try:
            handler(*arguments)
        except Exception:  # noqa: BLE001 -- what is known is right; one lost call must not end the watch
            self.failures += 1
            _log.exception("handler failed", path=self._path)

    def _report(self, what: str, message: str, **details: str) -> bool:
        """Log the same problem once, not with each event; return whether it was logged."""
        if what in self._reported:
            return False
        if len(self._reported) >= _MOST_REPORTED:
            self._reported.clear()
        self._reported.add(what)
        _log.warning(message, path=self._path, **details)
        return True


def key_of(item: HasMetadata | UndecodableObject) -> ObjectKey:
    """Return namespace and name of an item of a list."""
    meta = item.identity if isinstance(item, UndecodableObject) else item.metadata
    return meta.namespace, meta.name
