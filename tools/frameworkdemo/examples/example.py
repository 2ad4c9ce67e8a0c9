"""One example while it runs: what its `steps.py` may do to it, and wait for."""

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frameworkclient import Client
from frameworkdemo.cluster import Cluster
from frameworkdemo.errors import DemoError
from frameworkdemo.examples.story import Story

PATIENCE_SECONDS = 600.0
"""The default limit of each wait: far more than an idle machine needs, because others may use it, too."""
_PAUSE_SECONDS = 0.3


class Example:
    """An example in a namespace of its own, which exists and which the client is for."""

    def __init__(self, folder: Path, namespace: str, cluster: Cluster, client: Client, story: Story) -> None:
        self.folder = folder
        self.namespace = namespace
        self._cluster = cluster
        self._client = client
        self._story = story
        self._read: dict[str, int] = {}
        self._frameworks: list[str] = []

    def say(self, text: str) -> None:
        """Write a line."""
        self._story.say(text)

    def apply(self) -> None:
        """Apply the example, and follow its Frameworks."""
        self.say(f"$ kubectl apply -k {self.folder.parent.name}/{self.folder.name}")
        self._run("apply", "-k", str(self.folder))
        for name in self._run("get", "frameworks", "--output=name").split():
            self.follow(name.rpartition("/")[2])

    def follow(self, framework: str) -> None:
        """Follow a Framework that exists now, because the example's own steps or programs have created it."""
        self._frameworks.append(framework)
        self._story.follow(framework)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace, say so, and return its output."""
        self.say(f"$ kubectl {shlex.join(arguments)}")
        return self._run(*arguments, stdin=stdin)

    def kill(self, pod: str) -> None:
        """Delete a Pod, as a person or the eviction of a node would."""
        self.kubectl("delete", "pod", pod, "--wait=false")

    def rescale(self, role: str, number: int, framework: str | None = None) -> None:
        """Set the number of Tasks of a role."""
        name = framework or self._only()
        roles = self.get(f"framework/{name}")["spec"]["taskRoles"]
        (index,) = [index for index, each in enumerate(roles) if each["name"] == role]
        patch = [{"op": "replace", "path": f"/spec/taskRoles/{index}/taskNumber", "value": number}]
        self.kubectl("patch", "framework", name, "--type=json", f"--patch={json.dumps(patch)}")

    def get(self, name: str) -> Any:
        """Return an object by `<kind>/<name>`, as decoded JSON; None if there is none."""
        text = self._run("get", name, "--ignore-not-found", "--output=json")
        return json.loads(text) if text.strip() else None

    def logged(self, pod: str, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a Pod's program writes a line that contains a text, and return the line.

        A search begins after the line that the last search in the log of this Pod found, so steps read like a dialogue.

        Raises:
            DemoError: There was no such line in time.
        """
        found: list[str] = []

        def look() -> bool:
            lines = self._story.log(pod)
            for index in range(self._read.get(pod, 0), len(lines)):
                if text in lines[index]:
                    self._read[pod] = index + 1
                    found.append(lines[index])
                    return True
            return False

        self.until(f"{text!r} in the log of {pod}", look, seconds)
        return found[0]

    def ends(self, result: str = "Succeeded", framework: str | None = None, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until a Framework, by default the only one, is Completed as `Succeeded` or `Failed`, and return it.

        Raises:
            DemoError: It ended otherwise.
            ClientError: It has not ended in time, or was deleted.
        """
        name = framework or self._only()
        found = self._client.result(name, timeout=seconds)
        self._story.tell_end(name)
        if found.succeeded != (result == "Succeeded"):
            reason = f"{found.phrase} ({found.code}): {found.diagnostics}"
            raise DemoError(f"Framework {name} ended with {reason}; expected: {result}")
        return self.get(f"framework/{name}")

    def until(self, what: str, holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition holds; the error says what the wait was for."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise DemoError(f"gave up after {seconds:.0f} s of waiting for {what}")
            time.sleep(_PAUSE_SECONDS)

    def _only(self) -> str:
        if len(self._frameworks) != 1:
            raise DemoError(f"{self.folder.name} has {len(self._frameworks)} Frameworks: say which one is meant")
        return self._frameworks[0]

    def _run(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl(f"--namespace={self.namespace}", *arguments, text=stdin)
