"""The admission policies as text: what they accept, and what they print. `tests/apiserver` shows what they do."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier import values
from frameworkinjector import commands, policyfaults, settings
from frameworkinjector.cel import Cel, sentence, shown, written
from frameworkinjector.policy import documents
from localcluster.frameworks import manifests_of
from tests.injector.reviews import CONFIG
from tests.injector.test_docs import MANUAL

# Functions of CEL that API servers have from 1.31 (`sort`), 1.32 (`transform...`) and 1.34 on.
NEWER = re.compile(r"\.(?:transform\w+|flatten|distinct|sort|slice|reverse)\(|lists\.range")


@pytest.mark.parametrize("name", policyfaults.PATTERNS)
@given(data=st.data())
@hypothesis_settings(max_examples=30)
def test_what_the_policy_accepts_the_webhook_accepts_in_the_same_words(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(policyfaults.PATTERNS[name], fullmatch=True, alphabet=st.characters(codec="ascii")))
    keys = [item.partition("=")[0] for item in text.split(",")]
    if len(keys) != len(set(keys)) or len(text) > 1000:
        # The policy refuses repetition by a condition of its own; the server bounds nothing shorter.
        return
    assert values.as_text(settings.validator(name)(text)) == text


def test_each_annotation_is_served_or_named_as_needing_the_webhook() -> None:
    assert {*policyfaults.SUPPORTED, *policyfaults.NEEDS_WEBHOOK} == {*settings.KNOWN}
    assert {*policyfaults.PATTERNS} < {*policyfaults.SUPPORTED}
    section = MANUAL.partition("\n## Without a webhook\n")[2].partition("\n## ")[0]
    for name in policyfaults.NEEDS_WEBHOOK:
        assert f"`{name}`" in section, name


def test_what_refuses_works_on_an_api_server_without_mutating_policies() -> None:
    refusing, _, adding, _ = documents(CONFIG)
    assert (refusing["kind"], adding["kind"]) == ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
    assert not NEWER.search(json.dumps(refusing))
    assert NEWER.search(json.dumps(adding))


def test_both_policies_select_the_same_pods() -> None:
    refusing, _, adding, _ = documents(CONFIG)
    for shared in ("matchConstraints", "matchConditions", "failurePolicy"):
        assert refusing["spec"][shared] == adding["spec"][shared]
    (configuration,) = (
        each for each in manifests_of("frameworkinjector") if each["kind"] == "MutatingWebhookConfiguration"
    )
    (webhook,) = configuration["webhooks"]
    for selector in ("objectSelector", "namespaceSelector"):
        assert adding["spec"]["matchConstraints"][selector] == webhook[selector]


@pytest.mark.parametrize("as_json", [False, True], ids=["yaml", "json"])
def test_the_policies_are_printed_as_documents_that_can_be_applied(as_json: bool) -> None:
    out = io.StringIO()
    assert commands.policy(CONFIG, as_json=as_json, out=out) == 0
    text = out.getvalue()
    printed = json.loads(text)["items"] if as_json else list(yaml.safe_load_all(text))
    assert printed == documents(CONFIG)
    if not as_json:
        # Expressions of several lines are blocks.
        assert '\\"' not in text.partition("name: faults")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        ('a "b"\\\n', r'"a \"b\"\\\n"'),
        (True, "true"),
        ([1, 2.5], "[1, 2.5]"),
        ({"a": "b"}, '{"a": "b"}'),
        ({"a": "b", "c": 1}, '{"a": dyn("b"), "c": dyn(1)}'),
        ([{"a": "b"}, {"a": Cel("x")}], '[{"a": dyn("b")}, {"a": dyn(x)}]'),
        ([{"a": "b"}, {"a": "c"}], '[{"a": "b"}, {"a": "c"}]'),
        ({"a": {}}, '{"a": dyn({})}'),
    ],
    ids=str,
)
def test_values_are_written_as_expressions_of_one_type(value: Any, expression: str) -> None:
    assert written(value) == expression


def test_a_sentence_joins_text_and_expressions() -> None:
    assert sentence("{a} is {b}, not {c}.", a="x", b=Cel("y"), c="z") == '"x is " + y + ", not z."'
    assert shown(Cel("t"), 5).startswith('"\'" + (t.size() > 5 ? t.substring(0, 4) + "…" : t)')
