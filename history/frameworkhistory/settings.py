"""The settings of the program, by its command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from frameworkhistory import __version__


class Settings(argparse.Namespace):
    """What the command line says: each flag by its name, as the help tells it."""

    database: str
    logs: str
    log_bytes: int
    log_link: str
    retention_days: float
    retention_bytes: int
    retention_log_bytes: int
    namespace: list[str]
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
    add, folder = parser.add_argument, "/var/lib/frameworkhistory"
    add("--version", action="version", version=__version__)
    told = "URL of SQLite or PostgreSQL, or @FILE that contains it"
    add("--database", default=f"sqlite:///{folder}/history.db", type=_content, help=told)
    told = "where logs are kept: file:///folder, s3://, gs:// or az://bucket"
    add("--logs", default=f"file://{folder}/logs", metavar="URL", help=told)
    told = "bytes of each log, from its end (%(default)s)"
    add("--log-bytes", type=_natural, default=1 << 20, metavar="N", help=told)
    told = "where logs are elsewhere, such as https://logs/{namespace}/{pod}; then none is kept"
    add("--log-link", default="", metavar="TEMPLATE", help=told)
    add("--retention-days", type=float, default=90.0, metavar="N", help="days after the deletion (%(default)s)")
    told = "of the database, above which the oldest is dropped (0: no bound)"
    add("--retention-bytes", type=_natural, default=0, metavar="N", help=told)
    told = "of the objects of logs, above which the oldest are dropped (0: no bound)"
    add("--retention-log-bytes", type=_natural, default=0, metavar="N", help=told)
    add("--namespace", action="append", default=[], help="only of this namespace; once for each of several")
    add("--user-label", default="user", metavar="KEY", help="the label that says whose a Framework is (%(default)s)")
    add("--proxy-password-file", type=Path, metavar="FILE", help="the secret of an authenticating proxy")
    add("--actions", action=argparse.BooleanOptionalAction, default=True, help="offer to stop, retry and scale")
    told = "listen on loopback, and show what the kubeconfig's user may see, by a key"
    add("--local", action="store_true", help=told)
    add("--port", type=_natural, default=8080, help="of the page (%(default)s)")
    add("--internal-port", type=_natural, default=8081, help="of health and metrics (%(default)s)")
    add("--kubeconfig", metavar="FILE", help="instead of the service account of the Pod")
    return parser.parse_args(argv, Settings())


def _content(text: str) -> str:
    try:
        return Path(text[1:]).read_text().strip() if text.startswith("@") else text
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
