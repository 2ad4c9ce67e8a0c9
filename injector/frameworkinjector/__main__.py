"""The command line: `frameworkinjector [serve]`, and `audit` instead of `serve`.

The image's entry point and `python -m frameworkinjector` call `main`. It translates arguments into the values that
`run` and `audit` take. With `flags` it is the only home of their defaults.
Source: docs/reference/injector.md, section 2.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkinjector import __version__, flags
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.own_presets import OwnPresetsError
from frameworkkube.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frameworkinjector.serving.run import Options

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DAY_SECONDS = 24 * 3600


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 2 if the command line, or what it names, cannot be used."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0].startswith("-"):
        given = given if given[:1] in (["-h"], ["--help"], ["--version"]) else ["serve", *given]
    options = _parser().parse_args(given)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (flags.FlagError, OwnPresetsError, CredentialsError) as error:
        sys.stderr.write(f"frameworkinjector: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="frameworkinjector", description="Add the barrier to the Pods that ask for it by a label."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="serve|audit")
    _add_serve(commands.add_parser("serve", help="answer the API server (the default)"))
    _add_audit(commands.add_parser("audit", help="list Pods that carry the label and lack the barrier"))
    return parser


def _add_audit(audit: argparse.ArgumentParser) -> None:
    audit.set_defaults(run=_audit)
    audit.add_argument("-n", "--namespace", help="namespace to look at (default: all)")
    audit.add_argument("-o", "--output", choices=("table", "json"), default="table")
    audit.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, or the Pod's service account")


def _add_serve(serve: argparse.ArgumentParser) -> None:
    serve.set_defaults(run=_serve)
    flags.add_config(serve)
    serve.add_argument("--host", help="address to listen on (default: all, IPv4 and IPv6)")
    serve.add_argument("--port", type=_port, default=8443, help="port of the webhook, HTTPS (default %(default)s)")
    serve.add_argument("--health-port", type=_port, default=8081, help="port of /healthz, /readyz, /metrics")
    serve.add_argument("--namespace", help="the injector's own namespace (default: that of its service account)")
    serve.add_argument("--service", default="frameworkinjector", help="the Service that the API server calls")
    serve.add_argument("--secret", default="frameworkinjector-tls", help="the Secret that replicas share")
    serve.add_argument("--webhook-configuration", default="frameworkinjector", help="where caBundle is written")
    serve.add_argument("--extra-name", action="append", default=[], help="another name for the certificate")
    serve.add_argument("--tls-cert-file", type=Path, help="serve this certificate instead of making one")
    serve.add_argument("--tls-key-file", type=Path, help="the key of --tls-cert-file")
    serve.add_argument(
        "--env-files",
        type=flags.one_of(EnvFiles),
        metavar="|".join(EnvFiles),
        help="what the cluster supports (default: ask the API server; given with --tls-cert-file, never call it)",
    )
    serve.add_argument(
        "--in-place-restart",
        action="store_true",
        help="with --env-files: the cluster supports it (default: no; without --env-files, ask the API server)",
    )
    serve.add_argument(
        "--authority-days", type=_positive, default=1825.0, help="life of an authority (default %(default)g)"
    )
    serve.add_argument(
        "--certificate-days", type=_positive, default=90.0, help="life of a certificate (default %(default)g)"
    )
    serve.add_argument(
        "--check-seconds", type=_positive, default=10.0, help="time between two looks at the certificates"
    )
    serve.add_argument("--settle-seconds", type=_positive, default=5.0, help="time before a new authority is relied on")
    serve.add_argument("--kubeconfig", help="instead of the Pod's service account")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def _serve(options: argparse.Namespace) -> int:
    from frameworkinjector.serving import log, run

    config = flags.config_of(options)
    if (options.tls_cert_file is None) != (options.tls_key_file is None):
        raise flags.FlagError("--tls-cert-file and --tls-key-file are needed together")
    namespace = options.namespace or _own_namespace()
    if not namespace:
        raise flags.FlagError("--namespace is needed outside of a Pod")
    log.configure(options.log_level)
    asyncio.run(run.serve(_serve_options(options, config, namespace)))
    return 0


def _serve_options(options: argparse.Namespace, config: Config, namespace: str) -> Options:
    """Translate the command line; look for the API server only if a part will call it.

    Raises:
        CredentialsError: There is no usable address or credential of the API server.
    """
    from frameworkinjector.certificates.issuing import Profile
    from frameworkinjector.certificates.secret import ManagedObjects
    from frameworkinjector.serving.run import Options
    from frameworkkube.http import credentials

    files = None if options.tls_cert_file is None else (options.tls_cert_file, options.tls_key_file)
    endpoint = None
    if files is None or options.env_files is None:
        kubeconfig = options.kubeconfig
        endpoint = credentials.from_kubeconfig(kubeconfig) if kubeconfig else credentials.in_cluster()
    service = f"{options.service}.{namespace}.svc"
    return Options(
        config=config,
        profile=Profile(
            names=(service, f"{service}.cluster.local", *options.extra_name),
            authority_seconds=options.authority_days * _DAY_SECONDS,
            certificate_seconds=options.certificate_days * _DAY_SECONDS,
        ),
        objects=ManagedObjects(
            namespace=namespace, secret=options.secret, webhook_configuration=options.webhook_configuration
        ),
        endpoint=endpoint,
        certificate_files=files,
        env_files=options.env_files,
        host=options.host,
        port=options.port,
        health_port=options.health_port,
        check_seconds=options.check_seconds,
        settle_seconds=options.settle_seconds,
    )


def _audit(options: argparse.Namespace) -> int:
    from frameworkinjector.offline.audit import audit
    from frameworkkube.http import credentials

    endpoint = credentials.discover(kubeconfig=options.kubeconfig)
    as_json = options.output == "json"
    return audit(endpoint, options.namespace, as_json=as_json, out=sys.stdout, err=sys.stderr)


def _own_namespace() -> str:
    try:
        return os.environ.get("POD_NAMESPACE") or _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number below 1000000")
    return number


if __name__ == "__main__":
    sys.exit(main())
