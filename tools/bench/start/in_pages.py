"""The controller that fills its caches in pages, whatever the API server can do: to compare both ways."""

import sys
from typing import Any, TypeVar

from frameworkcontroller.__main__ import main
from frameworkcontroller.engine.cache import each
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class PagedInformer(Informer[T]):
    """An informer that asks for no stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, streamed=False)


if __name__ == "__main__":
    each.Informer = PagedInformer  # type: ignore[attr-defined]
    sys.exit(main())
