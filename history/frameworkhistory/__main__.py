"""The command line of the archive: `frameworkhistory`."""

import asyncio
import sys
from collections.abc import Sequence

import structlog

from frameworkhistory.archive.database import NewerSchemaError
from frameworkhistory.run import serve
from frameworkhistory.settings import parse
from frameworkkube.deep_objects import read_deep_objects
from frameworkkube.errors import CredentialsError, EtcdRestoredError
from frameworkkube.http.credentials import discover
from frameworkkube.log import render_json


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code.

    It is 1 if etcd was restored from a backup, so that all is read again, 2 if the program cannot work as it is set.
    """
    settings = parse(argv)
    read_deep_objects()
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, structlog.processors.format_exc_info, render_json],
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    try:
        asyncio.run(serve(settings, discover(kubeconfig=settings.kubeconfig)))
    except (CredentialsError, EtcdRestoredError, NewerSchemaError) as error:
        sys.stderr.write(f"frameworkhistory: {error}\n")
        return 1 if isinstance(error, EtcdRestoredError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
