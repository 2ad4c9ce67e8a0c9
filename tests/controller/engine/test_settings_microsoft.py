"""A configuration of Microsoft's controller is read as it is: each key, and each omission that its schema allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkcontroller.api.codes import FAILED, PERMANENT, TRANSIENT, TRANSIENT_CONFLICT
from frameworkcontroller.core.policies.classification import (
    CONTAINER_CONTRACT,
    CodeInfo,
    ContainerPattern,
    PodPattern,
    Range,
)
from frameworkcontroller.engine.config.settings import Settings, default_config, load_settings, read_settings

MICROSOFT = Path(__file__).parent / "microsoft.yaml"
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "framework-api.md"


def configured() -> dict[int, CodeInfo]:
    codes = load_settings(MICROSOFT).core.codes[len(CONTAINER_CONTRACT) :]
    return {info.code: info for info in codes}


def leaves(group: dict[str, Any], path: str = "") -> set[str]:
    """The paths of all keys that hold no mapping."""
    found: set[str] = set()
    for key, value in group.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {path + key}
    return found


def test_the_file_has_every_key_of_the_reference() -> None:
    section = REFERENCE.read_text().partition("## 11. Configuration")[2].partition("**Added.**")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    wanted: set[str] = set()
    for row in rows:
        for key in row.replace("`", "").split(","):
            name = key.strip()
            wanted.add(f"logObjectSnapshot{name}" if name.startswith(".") else name)
    assert leaves(yaml.safe_load(MICROSOFT.read_text())) == wanted


def test_values_are_read() -> None:
    read = load_settings(MICROSOFT)
    assert read.kube_api_server_address == "http://10.0.0.1:8080"
    assert (read.kube_client_qps, read.kube_client_burst, read.worker_number) == (200, 300, 500)
    assert read.log_object_snapshot == Settings().log_object_snapshot


@pytest.mark.parametrize(
    ("code", "phrase", "kind"),
    [
        (221, "Everything", TRANSIENT_CONFLICT),
        (-1000, "OnlyAttributes", TRANSIENT),
        (-1001, "OnlyName", FAILED),
        (-1002, "", PERMANENT),
        (220, "NoType", FAILED),
        (-(2**31), "", FAILED),
        (2**31 - 1, "", FAILED),
        (-1003, "", FAILED),
        (-1004, "", FAILED),
        (-1005, "", FAILED),
    ],
)
def test_an_entry_that_leaves_out_its_phrase_or_type_has_the_defaults(code: int, phrase: str, kind: object) -> None:
    info = configured()[code]
    assert (info.phrase, info.type) == (phrase, kind)


def test_a_pattern_that_leaves_out_a_field_matches_anything_there() -> None:
    codes = configured()
    assert codes[-(2**31)].patterns == (PodPattern(),)
    assert codes[2**31 - 1].patterns == (PodPattern(), PodPattern(containers=(ContainerPattern(),)))
    assert codes[-1003].patterns == (PodPattern(),)
    (pattern,) = codes[220].patterns
    assert [container.code for container in pattern.containers] == [Range(None, 0), Range(), None]


def test_every_entry_is_read_in_its_order() -> None:
    assert list(configured()) == [entry["code"] for entry in yaml.safe_load(MICROSOFT.read_text())["podFailureSpec"]]


def test_the_shipped_list_is_read_without_the_names_of_its_types() -> None:
    """FC's own default file writes only the attributes, and no type where there are none."""
    document = yaml.safe_load(default_config())
    for entry in document["podFailureSpec"]:
        del entry["type"]["name"]
        if not entry["type"]["attributes"]:
            del entry["type"]
    read = read_settings(yaml.safe_dump(document)).core.codes
    assert [info.type for info in read] == [info.type for info in read_settings(default_config()).core.codes]


def test_a_file_in_which_every_key_is_commented_out_is_all_defaults() -> None:
    lines = MICROSOFT.read_text().splitlines()
    assert read_settings("\n".join(f"#{line}" for line in lines)) == Settings()
