"""The settings of the program, by its command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from frameworkhistory import __version__

DATABASE: Final = "sqlite:////var/lib/frameworkhistory/history.db"
LOGS: Final = "file:///var/lib/frameworkhistory/logs"


@dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes:
        database: URL of SQLAlchemy.
        logs: URL of the folder or bucket of logs.
        log_bytes: Of each log, from its end.
        log_link: Template of the address where a log is found elsewhere; with it, none is kept.
        retention_days: After which what does not exist any more is dropped.
        retention_bytes: Of the database, above which the oldest is dropped; 0 for no bound.
        namespaces: All if none is named.
        user_label: The label that says whose a Framework is.
        proxy_password_file: The secret of an authenticating proxy.
        actions: Whether the page offers what changes Frameworks.
        local: Whether the page listens on loopback alone, and shows to whoever has its key what the user of the
            kubeconfig may see.
    """

    database: str
    logs: str
    log_bytes: int
    log_link: str
    retention_days: float
    retention_bytes: int
    namespaces: tuple[str, ...]
    user_label: str
    proxy_password_file: Path | None
    actions: bool
    local: bool
    port: int
    internal_port: int
    kubeconfig: str | None


def parse(argv: Sequence[str] | None) -> Settings:
    """Return the settings; an error ends the program with a message that names the flag."""
    parser = argparse.ArgumentParser(prog="frameworkhistory", description="Keeps what has run, and shows it.")
    add = parser.add_argument
    add("--version", action="version", version=__version__)
    add("--database", default=DATABASE, type=_content, help="URL of SQLite or PostgreSQL, or @FILE that contains it")
    add("--logs", default=LOGS, metavar="URL", help="where logs are kept: file:///folder, s3://, gs:// or az://bucket")
    add(
        "--log-bytes", type=_natural, default=1 << 20, metavar="N", help="bytes of each log, from its end (%(default)s)"
    )
    add(
        "--log-link",
        default="",
        metavar="TEMPLATE",
        help="where logs are elsewhere, such as https://logs/{namespace}/{pod}",
    )
    add("--retention-days", type=float, default=90.0, metavar="N", help="days after the deletion (%(default)s)")
    add("--retention-bytes", type=_natural, default=0, metavar="N", help="of the database (0: no bound)")
    add("--namespace", action="append", default=[], help="only of this namespace; once for each of several")
    add("--user-label", default="user", metavar="KEY", help="the label that says whose a Framework is (%(default)s)")
    add("--proxy-password-file", type=Path, metavar="FILE", help="the secret of an authenticating proxy")
    add("--actions", action=argparse.BooleanOptionalAction, default=True, help="offer to stop, retry and scale")
    add(
        "--local", action="store_true", help="listen on loopback, and show what the kubeconfig's user may see, by a key"
    )
    add("--port", type=_natural, default=8080, help="of the page (%(default)s)")
    add("--internal-port", type=_natural, default=8081, help="of health and metrics (%(default)s)")
    add("--kubeconfig", metavar="FILE", help="instead of the service account of the Pod")
    found = parser.parse_args(argv)
    return Settings(
        **{name: value for name, value in vars(found).items() if name != "namespace"},
        namespaces=tuple(dict.fromkeys(found.namespace)),
    )


def _content(text: str) -> str:
    try:
        return Path(text[1:]).read_text().strip() if text.startswith("@") else text
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
