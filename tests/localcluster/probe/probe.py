"""The program of the Pods in `test_node.py`: each command prints what it observes."""

import http.server
import json
import socket
import ssl
import sys
import time
import urllib.request
from pathlib import Path

SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def wait() -> None:
    """Sleep for an hour."""
    time.sleep(3600)


def serve() -> None:
    """Serve HTTP on port 8080, and answer with the caller's address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"server": socket.gethostname(), "client": self.client_address[0]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()


def fetch(*urls: str) -> None:
    """Print the answer of each URL; try for five minutes while a name or a port is missing."""
    for url in urls:
        deadline = time.monotonic() + 300
        while True:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    print(answer.read().decode(), flush=True)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)


def resolve(name: str) -> None:
    """Print why a name that does not exist does not resolve."""
    try:
        socket.getaddrinfo(name, 80)
        kind = "found"
    except socket.gaierror as error:
        kind = {socket.EAI_NONAME: "no such name"}.get(error.errno or 0, str(error))
    print(json.dumps({"answer": kind}))


def ask(path: str) -> None:
    """Print the API server's answer for the Pod's own service account."""
    request = urllib.request.Request(
        f"https://kubernetes.default.svc{path}", headers={"Authorization": f"Bearer {(SECRETS / 'token').read_text()}"}
    )
    tls = ssl.create_default_context(cafile=str(SECRETS / "ca.crt"))
    with urllib.request.urlopen(request, timeout=60, context=tls) as answer:
        print(json.dumps(json.load(answer)))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
