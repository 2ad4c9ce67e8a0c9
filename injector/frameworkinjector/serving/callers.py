"""Learns from which addresses API servers call, by a question that only they can pass on.

Every Pod of a cluster may reach the port of reviews, and no connection says who made it. So `Callers` lets the API
server create a PodTemplate, as a dry run, with a word in it that nobody else has read. A webhook for PodTemplates of
the injector's namespace brings it back, and whoever brings it calls from an address of an API server. The listener and
the turns of the server serve these addresses before all others.

Each question begins a connection, and its answer ends one, so that in time every API server reaches every replica.
Before, and without permission to ask, an API server is one source among others.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec
import structlog

from frameworkinjector import names
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.paths import resource_path

EVERY_SECONDS: Final = 10.0
# With three API servers and two replicas, one in six questions shows an address to a replica. So this often in a row it
# asks again at once, until none of them has shown another address.
AT_ONCE: Final = 30
AT_ONCE_SECONDS: Final = 1.0
KNOWN_SECONDS: Final = 1800.0
# A review of the question has 2 KB.
MAX_BYTES: Final = 16 * 1024
_LOOPBACK: Final = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_log = structlog.get_logger(__name__)


class Callers:
    """Knows the addresses of API servers.

    Args:
        namespace: Where the injector may create PodTemplates.
        on_change: Called with the number of known addresses.
        clock: Monotonic seconds.

    Attributes:
        known: The addresses, at present.
        word: That of the question that is under way; "" while there is none.
        problem: Why nobody can become known, "" if nothing is wrong.
    """

    def __init__(
        self,
        namespace: str,
        on_change: Callable[[int], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = resource_path("v1", "podtemplates", namespace=namespace)
        self._on_change = on_change
        self._clock = clock
        self._until: dict[str, float] = {}
        self._sources = set[str]()
        """Those that have brought the word, which loopback need not have."""
        self.word = ""
        self.problem = ""
        self._in_vain = 0
        """Questions since one has shown another address."""
        self.known: Collection[str] = self._until.keys()

    async def run(self, endpoint: Endpoint) -> None:
        """Ask an API server until cancelled; what is known stays valid for a while when a question fails."""
        client = KubeClient(endpoint, user_agent="frameworkinjector", max_connections=1)
        while True:
            self._in_vain += 1
            try:
                await self._ask(client)
                is_lost = not self._until and self._in_vain > AT_ONCE
                problem = "no question comes back: is the webhook for PodTemplates installed?" if is_lost else ""
            except KubeError as error:
                problem = str(error)
            if problem and problem != self.problem:
                _log.warning("not known from where API servers call", problem=problem)
            self.problem = problem
            self.forget()
            await asyncio.sleep(AT_ONCE_SECONDS if self._in_vain <= AT_ONCE else EVERY_SECONDS)

    async def _ask(self, client: KubeClient) -> None:
        self.word = secrets.token_hex(16)
        metadata = {
            "generateName": "frameworkinjector-question-",
            "labels": {names.LABEL: names.QUESTION},
            "annotations": {names.WORD: self.word},
        }
        template = {"spec": {"containers": [{"name": "question", "image": "question"}]}}
        body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}
        try:
            await client.request("POST", self._path, query={"dryRun": "All"}, body=msgspec.json.encode(body))
        finally:
            self.word = ""
            # It opens another one for the next question.
            await client.close()

    def hear(self, body: bytes, source: str | None) -> None:
        """Note who has sent a body, if it has the word in it."""
        if source and self.word and len(body) <= MAX_BYTES and self.word.encode() in body:
            if source not in self._sources:
                self._in_vain = 0
                _log.info("an API server calls from here", source=source)
            # The replica's call to itself is as honest.
            self._until.update(dict.fromkeys((source, *_LOOPBACK), self._clock() + KNOWN_SECONDS))
            self._sources.add(source)
            self._tell()

    def forget(self) -> None:
        """Forget who has not called for long."""
        now = self._clock()
        for source in [source for source, until in self._until.items() if until <= now]:
            del self._until[source]
        self._sources &= self._until.keys()
        self._tell()

    def _tell(self) -> None:
        self._on_change(len(self._sources))
