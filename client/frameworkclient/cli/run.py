"""Runs a command: errors become one line and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from frameworkclient import errors
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.terminal import program, say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from frameworkclient.aio import AsyncClient

T = TypeVar("T")

_CODES: Final = {
    errors.ArgumentError: ExitCode.USAGE,
    errors.ManifestError: ExitCode.USAGE,
    errors.WaitTimeoutError: ExitCode.TIMEOUT,
    errors.DeletedError: ExitCode.DELETED,
}


def complete_context(incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig that begin so."""
    from frameworkclient.access import contexts

    return [name for name in contexts() if name.startswith(incomplete)]


@dataclass(frozen=True)
class Cluster:
    """Where a command works, and as whom: the flags of all commands with a cluster. The kubeconfig says the rest."""

    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace; that of the context by default.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option(help="Context of the kubeconfig; the current one by default.", autocompletion=complete_context),
    ] = None
    kubeconfig: Annotated[str | None, typer.Option(help="File; KUBECONFIG or ~/.kube/config by default.")] = None
    as_user: Annotated[str, typer.Option("--as", help="User to act as.")] = ""
    as_groups: Annotated[list[str] | None, typer.Option("--as-group", help="Group to act as; repeatable.")] = None

    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function with a client, and close the client.

        Raises:
            ClientError: There is no such cluster, the flags contradict each other, or the work has failed.
        """
        import asyncio

        from frameworkclient.access import Impersonation
        from frameworkclient.aio import AsyncClient

        if self.as_groups and not self.as_user:
            raise errors.ArgumentError("--as-group: needs --as")
        whom = Impersonation(user=self.as_user, groups=tuple(self.as_groups or ())) if self.as_user else None

        async def connected() -> T:
            async with AsyncClient(
                kubeconfig=self.kubeconfig,
                context=self.context,
                namespace=self.namespace,
                impersonate=whom,
                history=getattr(self, "history", ""),
                history_token_file=getattr(self, "history_token_file", ""),
            ) as client:
                return await work(client)

        return asyncio.run(connected())

    def stay(
        self, followed: Sequence[tuple[str | None, str]], work: Callable[[AsyncClient], Coroutine[Any, Any, T]]
    ) -> T | ExitCode:
        """Run what waits for Frameworks; Ctrl-C leaves them running and says how to come back.

        Each of `followed`, to which the work may add, has a namespace, None for that of the flags, and a name.
        """
        try:
            return self.run(work)
        except KeyboardInterrupt:
            for namespace, name in followed:
                where = ("-n", namespace or self.namespace)
                named = (where, ("--context", self.context), ("--kubeconfig", self.kubeconfig))
                place = name + "".join(f" {flag} {value}" for flag, value in named if value)
                again, end = f"{program()} logs -f {place}", f"{program()} stop {place}"
                say(f"\nFramework {name} goes on. See it again: {again}; end it: {end}")
            return ExitCode.INTERRUPTED


@dataclass(frozen=True)
class ClusterAndArchive(Cluster):
    """The same for commands that ask the archive for what is gone."""

    history: Annotated[
        str, typer.Option(help="Address of the archive; FRAMEWORKCTL_HISTORY or what the cluster says by default.")
    ] = ""
    history_token_file: Annotated[
        str, typer.Option(help="File with a token for it; FRAMEWORKCTL_HISTORY_TOKEN or your own token by default.")
    ] = ""


def guarded(work: Callable[[], int | None]) -> int:
    """Call a command and return its exit code."""
    import logging

    from frameworkkube.log import before_first_line

    # What the Kubernetes client logs goes to stderr, one line each: stdout is the output.
    before_first_line(_configure_structlog)
    logging.basicConfig(format=f"{program()}: %(message)s", level=logging.ERROR)
    try:
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python would complain about what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except errors.ClientError as error:
        say(f"{program()}: {error}")
        return _CODES.get(type(error), ExitCode.ERROR)
    except OSError as error:
        say(f"{program()}: {error.filename or 'output'}: {error.strerror or error}")
        return ExitCode.ERROR
    finally:
        before_first_line(None)
    return ExitCode.DONE if code is None else code


def _configure_structlog() -> None:
    import logging

    import structlog

    def line(_: Any, level: str, event: Any) -> str:
        more = f": {event['error']}" if "error" in event else ""
        return f"{program()}: {level}: {event.get('event', '')}{more}"

    structlog.configure(
        processors=[line],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
