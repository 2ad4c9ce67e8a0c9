"""The client on a real node: logs over retries and rescales, the program of its guide, why a gang does not start."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkclient import Client, Framework, RetryPolicy, Role
from localcluster import Cluster
from testkit.waiting import eventually, patience
from tests.e2e.pods import touch
from tests.support.frameworkctl import Frameworkctl
from tests.support.pages import blocks
from tests.support.waiting import has

pytestmark = [pytest.mark.node, pytest.mark.long]
IMAGE = "docker.io/frameworkcontroller/barrier:dev"
# Writes lines and waits until somebody has seen them; then it ends, with a last line that has no newline. The first
# attempt fails, the second one succeeds.
PROGRAM = """
import os, pathlib, sys, time
attempt = int(os.environ["FC_TASK_ATTEMPT_ID"])
for number in range(2000):
    print(f"{attempt} {number}", flush=number % 100 == 99)
while not pathlib.Path("/tmp/seen").exists():
    time.sleep(0.1)
sys.stdout.write("the end")
sys.stdout.flush()
raise SystemExit(0 if attempt else 200)
"""
LAST = "1999"


def let_end(cluster: Cluster, namespace: str, pod: str) -> None:
    """Tell the program in a Pod that its lines were seen."""
    touch(cluster, namespace, pod, "main", "/tmp/seen")


def expected(attempt: int) -> list[str]:
    return [*(f"{attempt} {number}" for number in range(2000)), "the end"]


def test_logs_are_followed_and_saved_with_every_line_of_every_attempt_once(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    policy = RetryPolicy(fancy_retry_policy=True)
    worker = Role.container("worker", 2, image=IMAGE, command=["python3", "-c", PROGRAM], retry_policy=policy)
    client.create(Framework("training", [worker]))
    process = Frameworkctl(cluster.kubeconfig, namespace, tmp_path).start("logs training", "-f", "--save", "logs")

    def is_saved(task: str, attempt: int) -> None:
        file = tmp_path / "logs" / f"{task}.attempt-0-{attempt}.log"
        assert file.exists()
        assert file.read_text().endswith(f"{attempt} {LAST}\n")

    lines = []
    for line in client.logs("training", follow=True):
        lines.append(line)
        if line.text.endswith(f" {LAST}"):
            eventually(lambda of=line.source: is_saved(of.task, of.attempt[1]), timeout=60)  # type: ignore[misc]
            let_end(cluster, namespace, line.source.pod)
    assert client.result("training", timeout=patience(60)).succeeded
    _, errors = process.communicate(timeout=patience(60))
    assert (process.returncode, "8004 lines in 4 files of logs" in errors) == (0, True), errors
    for task in ("worker-0", "worker-1"):
        own = [line for line in lines if line.source.task == task]
        assert [line.time for line in own] == sorted(line.time for line in own)
        for attempt in (0, 1):
            assert [line.text for line in own if line.source.attempt[1] == attempt] == expected(attempt)
            saved = (tmp_path / "logs" / f"{task}.attempt-0-{attempt}.log").read_text().splitlines()
            assert saved == expected(attempt)


def test_logs_of_tasks_that_come_by_a_rescale_are_followed_too(client: Client) -> None:
    script = "import time; print('I am {{FC_TASK_INDEX}}', flush=True); time.sleep(3600)"
    command = ["python3", "-c", script]
    client.create(Framework("counting", [Role.container("counter", 1, image=IMAGE, command=command)]))
    seen: list[str] = []

    def logs(**options: Any) -> Iterator[str]:
        return map(str, client.logs("counting", **options))

    reader = threading.Thread(target=lambda: seen.extend(logs(follow=True)), daemon=True)
    reader.start()
    has(lambda: [*logs()], "[counter-0] I am 0", 60, 0.5)
    client.scale("counting", {"counter": 2})
    has(lambda: [*logs()], "[counter-1] I am 1", 60, 0.5)
    assert list(logs(task="counter-1", grep="am", tail=1)) == ["[counter-1] I am 1"]
    client.stop("counting")
    reader.join(patience(60))
    assert not reader.is_alive()
    assert sorted(seen) == ["[counter-0] I am 0", "[counter-1] I am 1"]


def test_the_program_of_the_guide_to_the_sdk_trains_a_function_on_four_pods(
    client: Client, cluster: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    program = next(block.text for block in blocks("docs/sdk.md") if block.text.startswith("from frameworkclient "))
    # The image of the tests, and a function that ends when its lines were seen: a program trains for longer.
    trains = 'f"rank'
    waits = "import pathlib, time\n    seen = pathlib.Path('/tmp/seen')\n"
    end = "\n    while not seen.exists(): time.sleep(0.1)\n\nwith Client"
    program = program.replace('image="my-training"', f"image={IMAGE!r}").replace("\n\nwith Client", end)
    program = program.replace("import os\n", f"import os\n    {waits}")
    assert all(part in program for part in (IMAGE, trains, waits, end))
    (tmp_path / "program.py").write_text(program)
    command, environ = [sys.executable, "-u", "program.py"], {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    shown = sorted(process.stdout.readline() for _ in range(4))
    assert shown == [f"[worker-{rank}] rank {rank} of 4 trains 3 epochs\n" for rank in range(4)]
    for rank in range(4):
        let_end(cluster, client.namespace, f"training-worker-{rank}")
    output, _ = process.communicate(timeout=patience(60))
    assert (process.returncode, output) == (0, "Succeeded\n")


def test_each_reason_of_a_gang_that_does_not_start_is_named(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    ctl = Frameworkctl(cluster.kubeconfig, namespace, tmp_path)
    waiting = Role.container("master", 1, image=IMAGE, preset="pytorch")
    placed = Role.container("worker", 1, image=IMAGE, preset="pytorch", node_selector={"example.org/none": "none"})
    pulled = Role.container("ps", 1, image="docker.io/frameworkcontroller/absent:dev", preset="pytorch")
    client.create(Framework("stuck", [waiting, placed, pulled]))
    template = dict(Role.container("worker", 1, image=IMAGE, command=["true"]).pod)
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "absent"}}]
    client.create(Framework("unconfigured", [Role("worker", 1, template)]))

    def is_said(name: str, *texts: str) -> None:
        page = ctl.ok(f"why {name}").output
        for text in texts:
            assert text in page, page

    told = {
        "stuck": (
            "master-0, ps-0: waits in the barrier for 1 Task: worker-0",
            "worker-0: its Pod cannot be scheduled",
            "no node has the labels that nodeSelector or affinity asks for",
        ),
        "unconfigured": ('container main cannot be created: CreateContainerConfigError: configmap "absent" not found',),
    }
    for name, texts in told.items():
        eventually(lambda name=name, texts=texts: is_said(name, *texts), timeout=60, interval=1)  # type: ignore[misc]
        client.stop(name)
