"""The command line, as a person uses it."""

from __future__ import annotations

import subprocess
import sys

from testkit.waiting import patience
from tests.support.rows import each


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frameworkinjector", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=patience(30))


@each(
    "arguments, expected",
    [
        (["serve", "--env-files=maybe"], "'maybe' is not one of none, plain, quoted"),
        (["--port=70000"], "'70000' is not a port"),
        (["--certificate-days=0"], "'0' is not a positive number"),
        (["--tls-cert-file=x"], "--tls-cert-file and --tls-key-file are needed together"),
        (["--namespace=x", "--kubeconfig=/nonexistent"], "/nonexistent"),
        (["--namespace=x"], "KUBERNETES_SERVICE_HOST is not set"),
        (["serve", "--barrier-pull-policy=Sometimes"], "'Sometimes' is not one of Always, IfNotPresent, Never"),
        (["render", "-f", "pod.yaml"], "invalid choice: 'render'"),
    ],
)
def test_a_usage_error_is_one_line_on_stderr(arguments: list[str], expected: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
