"""The manual names every annotation and every reason, and its examples work."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkinjector import names
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import Container, Metadata, Pod, Spec
from frameworkinjector.review.reasons import Reason, Ruling
from frameworkinjector.review.settings import KNOWN, parse
from testkit.frameworks import manifests_of
from testkit.waiting import patience

ROOT = Path(__file__).parents[2]
SYSTEM = "frameworkcontroller-system"
MANUAL = (ROOT / "docs" / "reference" / "injector.md").read_text()
EXAMPLES: list[Any] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)]


def test_each_annotation_has_a_row_with_an_example_that_is_accepted() -> None:
    table = MANUAL.partition("\n### Settings\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| `([^`]+)`[^|]* \| [^|]+ \|$", table, re.MULTILINE)
    assert [name for name, _ in rows] == list(KNOWN)
    for name, example in rows:
        assert name in parse({names.PREFIX + name: example}).given


def test_each_reason_that_a_user_can_meet_is_explained() -> None:
    for reason in Reason:
        if reason.ruling in {Ruling.REFUSED, Ruling.LEFT_ALONE}:
            assert f"`{reason.slug}`" in MANUAL, reason


def test_the_first_example_is_injected() -> None:
    (framework,) = [example for example in EXAMPLES if "kind" in example]
    template = framework["spec"]["taskRoles"][0]["task"]["pod"]
    metadata = template["metadata"]
    pod = Pod(
        Metadata({**metadata["labels"], "FC_FRAMEWORK_NAME": "mnist"}, metadata["annotations"]),
        Spec([Container("train", ["python"])]),
    )
    assert isinstance(decide(pod, Config(version="1"), EnvFiles.QUOTED), Plan)


def test_the_manifests_say_what_the_specification_says_of_the_webhook() -> None:
    webhook, question = manifest("frameworkinjector", "MutatingWebhookConfiguration")["webhooks"]
    assert webhook["objectSelector"] == {"matchLabels": {names.LABEL: names.LABEL_VALUE}}
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", SYSTEM]
    assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == ("Fail", "None", 5)
    assert (webhook["reinvocationPolicy"], webhook["admissionReviewVersions"]) == ("IfNeeded", ["v1"])
    assert "caBundle" not in webhook["clientConfig"]
    assert question["objectSelector"] == {"matchLabels": {names.LABEL: names.QUESTION}}
    assert question["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": SYSTEM}}
    assert [rule["resources"] for rule in question["rules"]] == [["podtemplates"]]
    assert (question["failurePolicy"], question["sideEffects"]) == ("Ignore", "None")
    assert question["clientConfig"] == webhook["clientConfig"]


def manifest(program: str, kind: str) -> Any:
    (found,) = [one for one in manifests_of(program) if one["kind"] == kind]
    return found


def test_the_network_policy_is_that_of_the_controller_and_the_port_of_reviews() -> None:
    ours = manifest("frameworkinjector", "NetworkPolicy")["spec"]
    controllers = manifest("frameworkcontroller", "NetworkPolicy")["spec"]
    assert [one["port"] for rule in ours["egress"] for one in rule["ports"]] == [443, 6443, 8443, 53, 5353, 53, 5353]
    assert [*ours["egress"], {"ports": [{"port": 24817}]}] == controllers["egress"], "it asks gangs how far they are"
    (health,) = controllers["ingress"]
    assert "frameworkcontroller.microsoft.com/metrics" in str(health["from"])
    assert ours["ingress"] == [{"ports": [{"port": "webhook"}]}, health]


ABSENT = ("kubernetes", "uvloop", "re2", "requests", "jinja2", "rich")


@pytest.mark.parametrize(
    ("absent", "modules"),
    [
        pytest.param(ABSENT, "offline.audit", id="commands"),
        # The server reads no YAML, so it must not load the library.
        pytest.param((*ABSENT, "yaml"), "serving.run", id="server"),
    ],
)
def test_the_program_imports_only_what_its_extra_installs(absent: tuple[str, ...], modules: str) -> None:
    """The image holds the extra and nothing else: `kubernetes` alone would cost 81 MiB of memory."""
    program = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
    program += "\n".join(f"import frameworkinjector.{module}" for module in modules.split())
    subprocess.run([sys.executable, "-c", program], check=True, timeout=patience(30))
