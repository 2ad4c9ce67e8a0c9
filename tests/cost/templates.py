"""The Pod template of a TaskRole: what making one Pod of it costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from frameworkcontroller.api import names
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt, TemplateError
from tests.cost.bounds import INPUT_BYTES, REQUEST_BYTES
from tests.cost.genes import Genes, Number, Word
from tests.cost.meter import Genome, Play, Size

UIDS = [f"{number:08x}-6393-11e8-b7cc-42010a800002" for number in range(3)]
ATTEMPT = RoleAttempt("n" * 63, "f" * 63, UIDS[0], 1234, UIDS[1], "r" * 63, UIDS[2])
PLACEHOLDERS = tuple(names.PLACEHOLDERS)
CONTAINERS = ("{}", '{"name":"a"}', '{"env":[]}', '{"env":[{}]}', "[]", '{"terminationMessagePolicy":"File"}')
"""An entry of a list of containers."""
NESTED = ("[]", "{}", "0", '""', '"\\u0000"', "[[]]", '{"a":0}', "null", "1e9", "1e+308")
"""An entry of a list that no field of a Pod is."""
GENES = Genes(
    {
        "containers": Number(0, INPUT_BYTES // 3),
        "container": Word(CONTAINERS),
        "init_containers": Number(0, INPUT_BYTES // 3),
        "placeholders": Number(0, INPUT_BYTES // 16),
        "placeholder": Word(PLACEHOLDERS),
        "in": Word(("annotation", "argument", "key")),
        "padding": Number(0, INPUT_BYTES),
        "nested": Number(0, INPUT_BYTES // 2),
        "entry": Word(NESTED),
        "field": Word(("nested", "nodeSelector", "affinity", "tolerations")),
        "avoided": Number(0, 8),
        "depth": Number(0, 4000),
        "labels": Number(0, 50_000),
        "annotations": Number(0, INPUT_BYTES // 12),
        "variables": Number(0, INPUT_BYTES // 3),
        "owners": Number(0, 50_000),
    }
)


def template_of(genome: Mapping[str, Any], labels: str = "", annotations: str = "") -> str | None:
    """Return the template as JSON, None if it is larger than a Framework may be.

    The genome has all of the genes above; labels and annotations are entries with a comma behind each.
    """
    number, long = genome["containers"], genome["init_containers"]
    marked, entries = genome["placeholders"], genome["nested"]
    mark, entry, container = f"{{{{{genome['placeholder']}}}}}", genome["entry"], genome["container"]
    bulk = number * len(container) + long * 3 + marked * len(mark) + genome["padding"] + entries * len(entry)
    bulk += 12 * (genome["labels"] + genome["annotations"]) + 3 * (genome["owners"] + genome["variables"])
    if bulk > INPUT_BYTES:
        return None
    text, key = mark * marked + "x" * genome["padding"], "note"
    argument = text if genome["in"] == "argument" else ""
    if argument:
        text = ""
    if genome["in"] == "key":
        key, text = text or key, ""
    labels += "".join(f'"l{at}":"",' for at in range(genome["labels"]))
    annotations += "".join(f'"a{at}":"",' for at in range(genome["annotations"]))
    main = f'{{"name":"main","image":"none","args":["{argument}"]}}'
    nested = "[" * genome["depth"] + ",".join([entry] * entries) + "]" * genome["depth"] or "null"
    first = ["{}"] * long
    if genome["variables"]:
        # Only such a container is read for what it says.
        first.append(f'{{"name":"{names.BARRIER_CONTAINER}","env":[{",".join(["{}"] * genome["variables"])}]}}')
    return (
        f'{{"metadata":{{"labels":{{{labels[:-1]}}},"annotations":{{{annotations}"{key}":"{text}"}},'
        f'"ownerReferences":[{",".join(["{}"] * genome["owners"])}]}},'
        f'"spec":{{"initContainers":[{",".join(first)}],"containers":['
        f"{','.join([main] + [container] * number)}],"
        f'"{genome["field"]}":{{"a":[{nested if genome["depth"] else ",".join([entry] * entries)}]}}}}}}'
    )


class Templates:
    """Pod templates."""

    name = "template"
    mutated = staticmethod(GENES.mutated)

    def seeds(self) -> Mapping[str, Genome]:
        """Return the cases that took memory out of all proportion, and large ones that are in order."""
        return {
            "90,000 empty containers": {"containers": 90_000},
            "230,000 empty containers": {"containers": 230_000},
            "90,000 empty init containers": {"init_containers": 90_000},
            "90,000 names of the Pod": {"placeholders": 90_000, "placeholder": names.POD_NAME},
            "70,000 names of the Framework": {"placeholders": 70_000, "placeholder": names.FRAMEWORK_NAME},
            "80,000 indices": {"placeholders": 80_000, "placeholder": names.TASK_INDEX, "in": "argument"},
            "70,000 names as a key": {"placeholders": 70_000, "placeholder": names.TASKROLE_NAME, "in": "key"},
            "1,000 containers": {"containers": 1000, "container": '{"name":"a"}'},
            "one long annotation": {"padding": 1_400_000},
            "an argument of 200 KB": {"padding": 200_000, "in": "argument"},
            "many annotations and labels": {"annotations": 40_000, "labels": 40_000},
            "many owners": {"owners": 100_000 // 2},
            "a list of lists": {"nested": 400_000, "entry": "[]"},
            "numbers that take long to read, of a Pod that avoids a node": {
                "nested": 190_000,
                "entry": "1e+308",
                "field": "nodeSelector",
                "avoided": 1,
            },
            "deep lists": {"depth": 990},
            "nothing": {},
        }

    def case(self, genome: Genome) -> "Template | None":
        whole = GENES.whole(genome)
        text = template_of(whole)
        avoided = tuple(f"{number}{'n' * 252}" for number in range(whole["avoided"]))
        return None if text is None or len(text) > INPUT_BYTES else Template(text.encode(), avoided)


@dataclass
class Template:
    """A template, of which one Pod is made."""

    text: bytes
    avoided: tuple[str, ...] = ()
    bound: str = "template"
    requests: int = 0

    @property
    def size(self) -> Size:
        return Size(len(self.text))

    def play(self) -> Play:
        """Prepare the template, and render a Pod of it."""
        self.bound = "template"
        made: PodTemplate | None = yield self._prepared
        if made is None:
            self.bound = "refused template"
            return
        yield partial(self._rendered, made)

    def _prepared(self) -> PodTemplate | None:
        try:
            return PodTemplate(self.text, replace(ATTEMPT, avoided=self.avoided))
        except TemplateError:
            return None

    def _rendered(self, template: PodTemplate) -> None:
        try:
            is_too_large = len(template.render(9999, UIDS[0], 1234)) > REQUEST_BYTES
        except TemplateError:
            is_too_large = True
        if is_too_large:
            # Whoever would make it has to know that before it costs anything.
            self.bound = "refused template"
