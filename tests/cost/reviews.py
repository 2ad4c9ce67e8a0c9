"""The injector's answer to a review: the mutations of `tests.injector.random_fuzzer`, guided by what they cost.

A genome has a golden Pod, the numbers by which it is mutated, one after the other, and how much of what is added.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frameworkinjector import names
from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.review import answer
from frameworkinjector.review.settings import KNOWN
from tests.cost.bounds import REQUEST_BYTES
from tests.cost.genes import Genes, Number, Word
from tests.cost.meter import Genome, Play, Size
from tests.injector.golden_pods import CASES, pod_of
from tests.injector.random_fuzzer import ODD_TEXTS, mutated
from tests.injector.reviews import CONFIG, review_of

SETTINGS = tuple(sorted(KNOWN))
MOST_DRAWS = 12
FIELDS = ("command", "args", "env", "envFrom", "volumeMounts", "ports", "nested")
ENTRIES = (
    *(
        '"x"',
        "{}",
        "[]",
        "null",
        '{"name":"x"}',
        '{"name":"x","value":"$(x)"}',
        '{"name":"x","mountPath":"/etc/hosts"}',
    ),
    *('{"prefix":"T","configMapRef":{"name":"x"}}', '"$(x)"', '"-x=y"', "1e400"),
)
GENES = Genes(
    {
        "pod": Word(tuple(CASES)),
        "containers": Number(0, 2000),
        "field": Word(FIELDS),
        "entry": Word(ENTRIES),
        "entries": Number(0, REQUEST_BYTES // 2),
        "setting": Word(SETTINGS),
        "text": Word(ODD_TEXTS),
        "times": Number(0, 20_000),
        "padding": Number(0, REQUEST_BYTES),
        "env_files": Word(tuple(str(one.value) for one in EnvFiles)),
    }
)


class Reviews:
    """Reviews of Pods."""

    name = "review"

    def seeds(self) -> Mapping[str, Genome]:
        """Return some golden Pods, and Pods of as many values as the injector takes."""
        large: dict[str, Genome] = {
            f"as many entries of {field} as fit": {
                "field": field,
                "entry": entry,
                "entries": min(135_000 // (entry.count(",") + entry.count("{") + 1), 2_900_000 // (len(entry) + 1)),
            }
            for field, entry in zip(FIELDS, (*ENTRIES[:1], *ENTRIES[3:9]), strict=True)
        }
        long: dict[str, Genome] = {
            f"a long {setting}": {"setting": setting, "text": text, "times": times}
            for setting, text, times in (
                ("roles", ",worker=2", 2000),
                ("preset", "pytorch,", 3000),
                ("containers", "app,", 5000),
                ("requests", "cpu=1,", 4000),
                ("timeout", "1ms", 2000),
                ("template-dir", "/a/..", 5000),
            )
            if setting in SETTINGS
        }
        rest: dict[str, Genome] = {
            "padding": {"padding": 2_900_000},
            "many containers": {"containers": 1500},
            "much in a hundred containers": {"containers": 98, "entries": 300, "entry": ENTRIES[5], "field": "env"},
        }
        some = {f"the golden Pod {case}": {"pod": case} for case in CASES[::20]}
        return some | large | long | rest

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        """Add a mutation or take one away, or change some genes."""
        draws = genome.get("draws", [])
        changed: dict[str, object] = {key: value for key, value in genome.items() if key != "draws"}
        match draw.randrange(3):
            case 0 if draws:
                draws = draw.sample(draws, len(draws) - 1)
            case 1 if len(draws) < MOST_DRAWS:
                draws = [*draws, draw.randrange(2**31)]
            case _:
                changed = GENES.mutated(changed, draw)
        return {**changed, "draws": draws}

    def case(self, genome: Genome) -> "Review | None":
        genes = GENES.whole({key: value for key, value in genome.items() if key != "draws"})
        if genes["entries"] * (len(genes["entry"]) + 1) * max(1, genes["containers"]) > REQUEST_BYTES:
            return None
        body = review_of(_grown(pod_of(genes["pod"]), genes))
        if genes["entries"]:
            body = body.replace(b'"HERE"', ",".join([genes["entry"]] * genes["entries"]).encode())
        draws = genome.get("draws", [])
        for number in draws:
            if len(body) > REQUEST_BYTES // 4:
                # What is large is not decoded for each mutation.
                return None
            body = mutated([body], random.Random(number), 0.05)
        return Review(body, EnvFiles(genes["env_files"])) if len(body) <= REQUEST_BYTES else None


def _grown(pod: Any, genes: Mapping[str, Any]) -> Any:
    """Return a Pod with so much of everything; where the list of entries goes, is a mark."""
    containers = pod.get("spec", {}).get("containers") if isinstance(pod.get("spec"), dict) else None
    if isinstance(containers, list) and containers and isinstance(containers[0], dict):
        containers += [containers[0] | {"name": f"more{number}"} for number in range(genes["containers"])]
        if genes["entries"]:
            for at in range(len(containers)) if genes["containers"] else (0,):
                if isinstance(containers[at], dict):
                    containers[at] = containers[at] | {genes["field"]: ["HERE"]}
    metadata = pod.setdefault("metadata", {})
    if isinstance(metadata, dict):
        annotations = metadata.setdefault("annotations", {})
        if isinstance(annotations, dict):
            if genes["times"]:
                annotations[names.PREFIX + genes["setting"]] = (genes["text"] * genes["times"])[:REQUEST_BYTES]
            if genes["padding"]:
                annotations["padding"] = "x" * genes["padding"]
    return pod


@dataclass
class Review:
    """The body of a review."""

    body: bytes
    env_files: EnvFiles
    bound: str = "review"
    requests: int = 0

    @property
    def size(self) -> Size:
        return Size(len(self.body))

    def play(self) -> Play:
        yield partial(answer, self.body, CONFIG, self.env_files)
