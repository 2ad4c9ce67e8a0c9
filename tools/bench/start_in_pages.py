"""The controller that fills its caches in pages, whatever the API server can do: to compare both ways."""

import functools
import sys

from frameworkcontroller.__main__ import main
from frameworkcontroller.engine.cache import caches
from frameworkkube.informer.informer import Informer

if __name__ == "__main__":
    caches.Informer = functools.partial(Informer, streamed=False)  # type: ignore[assignment, attr-defined]
    sys.exit(main())
