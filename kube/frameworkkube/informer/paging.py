"""How many objects an informer asks for at a time, so that a page of a list has a bounded size, not a bounded count.

The API server knows only counts: 500 Pods are 2 MiB, 500 large objects 500 MiB. A list begins with few objects, and the
next page is chosen by the size of what has come so far. A page that is still too large is not read to its end.
"""

from typing import Final

FIRST_OBJECTS: Final = 20
"""Of the largest objects that etcd takes by default (1.5 MiB), so many are less than `MOST_BYTES`."""
WANTED_BYTES: Final = 8 << 20
MOST_BYTES: Final = 32 << 20
_SHRINK_BY: Final = 8


class PageSize:
    """The number of objects to ask for next.

    Args:
        most: objects per page, however small they are.

    Attributes:
        objects: to ask for next.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.objects = min(FIRST_OBJECTS, most)

    @property
    def max_bytes(self) -> int | None:
        """The size beyond which a page is not read; None for a single object, which cannot be had in parts."""
        return MOST_BYTES if self.objects > 1 else None

    def took(self, objects: int, size: int) -> None:
        """Choose the next page by the size in bytes of the objects in this one; an empty one says nothing."""
        if objects:
            fitting = WANTED_BYTES * objects // max(size, 1)
            self.objects = min(max(fitting, 1), self._most)

    def was_too_large(self) -> None:
        """Ask for far fewer objects: the page had more than `max_bytes`."""
        self.objects = max(1, self.objects // _SHRINK_BY)
