"""The roster of a gang: written by the controller, read by each barrier; and what anybody may have put in its place."""

import gzip
import random
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.shape import ShapeError
from frameworkbarrier.source import roster as barrier
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskRoleStatus, TaskStatus
from frameworkcontroller.core.effects import RolesSummary
from frameworkcontroller.core.gang.publisher import Publication, Publisher
from frameworkcontroller.core.gang.roster import AttemptName, Published, behind, members
from frameworkcontroller.core.restart.epoch import Gate
from tests.controller.core.values import START, at, task
from tests.cost.bounds import ROSTER_BYTES, TASKS
from tests.cost.genes import Genes, Number, Word, joined, mutated_pieces
from tests.cost.meter import MIB, Genome, Play, Size

IDENTITY = AttemptName("ns", "fw", "framework-uid", 0, "0_config-map-uid")
GENES = Genes(
    {
        "roles": Number(1, 1000),
        "tasks": Number(1, TASKS),
        "complete": Word((True, False)),
        "epoch": Number(0, 2**31 - 1),
        "behind": Number(0, TASKS),
        "node": Number(0, 253),
        "address": Word(("10.0.0.1", "2001:db8:1234:5678:9abc:def0:1234:5678", "")),
        "why": Number(0, 1_000_000),
        "character": Word(("x", "é", "\n", '"', "\x1b")),
        "gpus": Number(0, 2**31 - 1),
    }
)


class Rosters:
    """Rosters that the controller writes."""

    name = "roster"
    mutated = staticmethod(GENES.mutated)

    def seeds(self) -> Mapping[str, Genome]:
        """Return rosters of the most Tasks and TaskRoles, complete and not."""
        return {
            "10,000 Tasks": {"tasks": TASKS, "address": "10.0.0.1", "node": 63},
            "10,000 Tasks with long names of nodes": {"tasks": TASKS, "node": 253, "gpus": 8},
            "1,000 roles": {"roles": 1000, "tasks": 10},
            "long reasons": {"tasks": 1000, "complete": False, "why": 1_000_000, "character": "é"},
            "10,000 Tasks are behind": {"tasks": TASKS, "complete": False, "epoch": 3, "behind": TASKS},
        }

    def case(self, genome: Genome) -> "Roster | None":
        genes = GENES.whole(genome)
        return Roster(genes) if genes["roles"] * genes["tasks"] <= TASKS else None


@dataclass
class Roster:
    """A status that is written as a roster and read again."""

    genes: dict[str, Any]
    bound: str = "roster"
    requests: int = 0
    written: int = 0

    @property
    def size(self) -> Size:
        """The bytes of the roster, and the Tasks."""
        return Size(self.written, self.genes["roles"] * self.genes["tasks"])

    def play(self) -> Play:
        """Decide on the roster, write it, pack it, and read it."""
        genes, summary = self.genes, self._summary()
        last = msgspec.json.encode(Published(epoch=genes["epoch"] or msgspec.UNSET)).decode()
        annotations = {names.ROSTER_ANNOTATION: last}
        config_map = Meta("fw-attempt", "config-map-uid", "1", creation_timestamp=START, annotations=annotations)
        publisher = Publisher(config_map, IDENTITY, members, behind, "1")
        why = genes["character"] * genes["why"]
        missing = [(f"role0-{index}", why) for index in range(genes["tasks"])]
        found: Publication = yield partial(publisher.decide, summary, lambda: missing, at(100), "1")
        assert found.write is not None
        document = found.write.document
        self.written = len(document)
        again: Publication = yield partial(publisher.decide, summary, lambda: missing, at(100), "2")
        assert again.write is not None, "somebody has changed it"
        packed: bytes = yield partial(gzip.compress, document, 6, mtime=0)
        yield partial(_read, {"data": {names.ROSTER_KEY: document.decode()}})
        yield partial(_read, {"binaryData": {names.ROSTER_GZIP_KEY: b64encode(packed).decode()}})

    def _summary(self) -> RolesSummary:
        genes = self.genes
        roles = tuple(
            TaskRoleStatus(f"role{number}", "role-uid", task_statuses=tuple(map(self._task, range(genes["tasks"]))))
            for number in range(genes["roles"])
        )
        total = genes["roles"] * genes["tasks"]
        gate = Gate(genes["epoch"], int(genes["complete"])) if genes["epoch"] else None
        order = tuple(role.name for role in roles)
        return RolesSummary(
            roles=roles,
            order=order,
            ready=total if genes["complete"] else total - 1,
            total=total,
            by_arrival=gate is not None,
            member_revision=1,
            gpus=dict.fromkeys(order, genes["gpus"]) if genes["gpus"] else {},
            gate=gate,
        )

    def _task(self, index: int) -> TaskStatus:
        genes = self.genes
        is_behind = bool(genes["epoch"]) and index < genes["behind"] and not genes["complete"]
        address, node = genes["address"] or None, "n" * genes["node"]
        own: dict[str, Any] = {"pod_ip": address, "pod_host_ip": address, "pod_node_name": node}
        if genes["epoch"]:
            own |= {"arrived": not is_behind, "starts": 1, "epoch": genes["epoch"] - is_behind}
        plain = task(State.RUNNING, index=index, pod_uid=f"{index:08}-uid")
        return replace(plain, attempt_status=replace(plain.attempt_status, **own))


ALPHABET = (
    *("[", "]", "{", "}", '"', ",", ":", "0", "9", "1e", "-", "\\u0000", "\\", "null", "[],", "{},", "[[],", '"a":'),
    *("é", "\n"),
    *('["", 0, "", 0],', '[0,"10.0.0.1","",0,"",""],', '{"name":"a","tasks":[]},', '{"task":"a","why":"b"},'),
    "\ud800",
)
HEAD = (
    '{"version":1,"generation":1,"ready":1,"total":1,'
    '"framework":{"namespace":"ns","name":"fw","uid":"u","attemptID":0},'
)


def _long(beginning: str, repeated: str, times: int, end: str) -> Genome:
    return {"pieces": [[HEAD, 1], [beginning, 1], [repeated, times], [end, 1]]}


class ForeignRosters:
    """ConfigMaps that anybody has written."""

    name = "foreign roster"

    def seeds(self) -> Mapping[str, Genome]:
        """Return documents that are nearly rosters, and some that are not."""
        roles = '"complete":true,"taskRoles":['
        return {
            "many Tasks of one index": _long(
                roles + '{"name":"a","tasks":[', '[0,"10.0.0.1","",0,"",""],', 20_000, "0]}]}"
            ),
            "many roles": _long(roles, '{"name":"a","tasks":[]},', 20_000, "0]}"),
            "many reasons": _long('"complete":false,"waitingFor":[', '{"task":"a","why":"b"},', 40_000, "0]}"),
            "many behind": _long('"complete":false,"behind":[', '["", 0, "", 0],', 50_000, '["",0,"",0]]}'),
            "deep": {"pieces": [["[", 500_000]]},
            "a long number": {"pieces": [["9", 1_000_000]]},
            "a number of many digits": _long('"complete":false,"epoch":', "9", 900_000, "}"),
            "packed": {"packed": True, "pieces": [["[],", 1_000_000]]},
        }

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        """Change a piece, or whether it is packed."""
        pieces = genome["pieces"]
        packed = bool(genome.get("packed")) is not (draw.random() < 0.1)
        return {"packed": packed, "pieces": [list(one) for one in mutated_pieces(pieces, ALPHABET, draw, 4 * MIB)]}

    def case(self, genome: Genome) -> "ForeignRoster | None":
        pieces = genome["pieces"]
        # What is packed may be 64 MiB long; this much shows as well what it costs.
        text = joined(pieces, 4 * MIB if genome.get("packed") else ROSTER_BYTES)
        if text is None:
            return None
        encoded = text.encode("utf-8", "surrogatepass")
        if not genome.get("packed"):
            return ForeignRoster({"data": {names.ROSTER_KEY: text}}, len(encoded))
        packed = b64encode(gzip.compress(encoded, 1, mtime=0)).decode()
        return ForeignRoster({"binaryData": {names.ROSTER_GZIP_KEY: packed}}, len(encoded))


@dataclass
class ForeignRoster:
    """A ConfigMap."""

    config_map: dict[str, Any]
    length: int
    bound: str = "foreign roster"
    requests: int = 0

    @property
    def size(self) -> Size:
        """The bytes of the document, unpacked."""
        return Size(self.length)

    def play(self) -> Play:
        yield partial(_read, self.config_map)


def _read(config_map: Mapping[str, Any]) -> object:
    try:
        text = barrier.find(config_map)
        return None if text is None else barrier.decode(text)
    except (barrier.RosterError, SettingsError, ShapeError):
        return None
