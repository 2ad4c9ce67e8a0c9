"""The command line: ``frameworkinjector [serve]``, ``frameworkinjector render`` and ``frameworkinjector audit``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from frameworkinjector import __version__
from frameworkinjector.config import DEFAULT_BARRIER_IMAGE, Config, EnvFiles, PullPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_E = TypeVar("_E", bound=StrEnum)
_COMMANDS = ("serve", "render", "audit")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0].startswith("-"):
        given = given if given[:1] in (["-h"], ["--help"], ["--version"]) else ["serve", *given]
    options = _parser().parse_args(given)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="frameworkinjector", description="Adds the barrier to the Pods that ask for it by a label."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="|".join(_COMMANDS))
    _add_serve(commands.add_parser("serve", help="answer the API server (the default)"))
    _add_render(commands.add_parser("render", help="print what would be injected, without a cluster"))
    _add_audit(commands.add_parser("audit", help="list Pods that carry the label and lack the barrier"))
    return parser


def _add_render(render: argparse.ArgumentParser) -> None:
    render.set_defaults(run=_render)
    _add_config(render)
    render.add_argument("-f", "--filename", required=True, help="a Pod, or something with a Pod template; - for stdin")
    render.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")
    render.add_argument(
        "--env-files",
        type=_one_of(EnvFiles),
        metavar="|".join(EnvFiles),
        default=EnvFiles.QUOTED,
        help="what the cluster supports: quoted from Kubernetes 1.35, plain or none before (default: quoted)",
    )


def _add_audit(audit: argparse.ArgumentParser) -> None:
    audit.set_defaults(run=_audit)
    audit.add_argument("-n", "--namespace", help="only this one (default: all)")
    audit.add_argument("-o", "--output", choices=("table", "json"), default="table")
    audit.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, the Pod's service account")


def _add_serve(serve: argparse.ArgumentParser) -> None:
    serve.set_defaults(run=_serve)
    _add_config(serve)
    serve.add_argument("--host", help="address to listen on (default: all, IPv4 and IPv6)")
    serve.add_argument("--port", type=_port, default=8443, help="of the webhook, HTTPS (default %(default)s)")
    serve.add_argument("--health-port", type=_port, default=8081, help="of /healthz, /readyz, /metrics")
    serve.add_argument("--namespace", help="where the injector runs (default: its service account's)")
    serve.add_argument("--service", default="frameworkinjector", help="the Service that the API server calls")
    serve.add_argument("--secret", default="frameworkinjector-tls", help="the Secret that replicas share")
    serve.add_argument("--webhook-configuration", default="frameworkinjector", help="where caBundle is written")
    serve.add_argument("--extra-name", action="append", default=[], help="another name for the certificate")
    serve.add_argument("--tls-cert-file", type=Path, help="serve this certificate instead of making one")
    serve.add_argument("--tls-key-file", type=Path, help="the key of --tls-cert-file")
    serve.add_argument(
        "--env-files",
        type=_one_of(EnvFiles),
        metavar="|".join(EnvFiles),
        help="what the cluster supports (default: ask it; with --tls-cert-file too, the API server is never called)",
    )
    serve.add_argument("--authority-days", type=_positive, default=1825.0, help="life (default %(default)g)")
    serve.add_argument("--certificate-days", type=_positive, default=90.0, help="life (default %(default)g)")
    serve.add_argument("--check-seconds", type=_positive, default=10.0, help="between looks at the certificates")
    serve.add_argument("--settle-seconds", type=_positive, default=5.0, help="before a new authority is relied on")
    serve.add_argument("--kubeconfig", help="instead of the Pod's service account")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--barrier-image", default=DEFAULT_BARRIER_IMAGE, help="default %(default)s")
    parser.add_argument(
        "--barrier-pull-policy",
        type=_one_of(PullPolicy),
        default=PullPolicy.IF_NOT_PRESENT,
        metavar="|".join(PullPolicy),
    )


def _serve(options: argparse.Namespace) -> int:
    from frameworkcontroller.cluster import credentials
    from frameworkcontroller.cluster.errors import CredentialsError
    from frameworkinjector import logs, pki
    from frameworkinjector.certificates import Places
    from frameworkinjector.run import Options, serve

    if (options.tls_cert_file is None) != (options.tls_key_file is None):
        return _wrong("--tls-cert-file and --tls-key-file are needed together")
    namespace = options.namespace or _own_namespace()
    if not namespace:
        return _wrong("--namespace is needed outside of a Pod")
    logs.configure(options.log_level)
    endpoint = None
    if options.tls_cert_file is None or options.env_files is None:
        try:
            endpoint = credentials.from_kubeconfig(options.kubeconfig) if options.kubeconfig else None
            endpoint = endpoint or credentials.in_cluster()
        except CredentialsError as error:
            return _wrong(str(error))
    service = f"{options.service}.{namespace}.svc"
    day = pki.DAY_SECONDS
    policy = pki.Policy(
        names=(service, f"{service}.cluster.local", *options.extra_name),
        authority_seconds=options.authority_days * day,
        certificate_seconds=options.certificate_days * day,
    )
    places = Places(namespace=namespace, secret=options.secret, webhook_configuration=options.webhook_configuration)
    prepared = Options(
        config=_config(options),
        namespace=namespace,
        policy=policy,
        places=places,
        endpoint=endpoint,
        certificate_file=options.tls_cert_file,
        key_file=options.tls_key_file,
        env_files=options.env_files,
        host=options.host,
        port=options.port,
        health_port=options.health_port,
        check_seconds=options.check_seconds,
        settle_seconds=options.settle_seconds,
    )
    asyncio.run(serve(prepared))
    return 0


def _render(options: argparse.Namespace) -> int:
    from frameworkinjector import commands

    file = None if options.filename == "-" else Path(options.filename)
    as_json = options.output == "json"
    return commands.render(file, _config(options), options.env_files, as_json=as_json, out=sys.stdout, err=sys.stderr)


def _audit(options: argparse.Namespace) -> int:
    from frameworkcontroller.cluster import credentials
    from frameworkcontroller.cluster.errors import CredentialsError
    from frameworkinjector import commands

    try:
        endpoint = credentials.discover(kubeconfig=options.kubeconfig)
    except CredentialsError as error:
        return _wrong(str(error))
    as_json = options.output == "json"
    return commands.audit(endpoint, options.namespace, as_json=as_json, out=sys.stdout, err=sys.stderr)


def _config(options: argparse.Namespace) -> Config:
    return Config(version=__version__, barrier_image=options.barrier_image, pull_policy=options.barrier_pull_policy)


def _own_namespace() -> str:
    try:
        return os.environ.get("POD_NAMESPACE") or _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""


def _one_of(kind: type[_E]) -> Callable[[str], _E]:
    def read(text: str) -> _E:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(kind)}") from None

    return read


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return number


def _wrong(message: str) -> int:
    print(f"frameworkinjector: {message}", file=sys.stderr)  # noqa: T201 -- the user of a command line
    return 2


if __name__ == "__main__":
    sys.exit(main())
