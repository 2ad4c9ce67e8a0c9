"""Gangs of other controllers as the client reads them out of their rosters."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from frameworkclient.views.gangs import GangView

OWNER = {"namespace": "default", "name": "train", "uid": "u", "attemptID": 2, "attemptInstanceUID": "2_c"}
ROSTER: dict[str, Any] = {"version": 1, "framework": OWNER, "ready": 3, "total": 14, "complete": False}


def view(*, packed: bool = False, **changes: Any) -> GangView:
    meta = {"name": "x", "uid": "c", "resourceVersion": "1", "namespace": "default"}
    meta |= {"labels": {"frameworkcontroller.microsoft.com/gang": "JobSet"}}  # type: ignore[dict-item]
    text = json.dumps(ROSTER | changes)
    data: dict[str, Any] = {"data": {"roster": text}}
    if packed:
        data = {"binaryData": {"roster.gz": base64.b64encode(gzip.compress(text.encode())).decode()}}
    return GangView(json.dumps({"metadata": meta, **data}).encode())


def test_it_says_who_is_missing_and_how_many_more() -> None:
    found = view(waitingFor=[{"task": "worker-3", "why": "has no Pod yet"}])
    assert list(found.explain()) == [
        "JobSet default/train is waiting, 3/14 ready, attempt 2",
        "worker-3: has no Pod yet",
        "and 10 more",
    ]


def test_it_says_why_it_can_never_be_complete() -> None:
    assert list(view(never="spec.x is y").explain())[1:] == ["it can never be complete: spec.x is y"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_complete_one_is_read_also_where_its_roster_is_packed(packed: bool) -> None:
    found = view(packed=packed, ready=14, complete=True)
    assert (found.state, list(found.explain())) == (
        "Complete",
        ["JobSet default/train is complete, 14/14 ready, attempt 2"],
    )


@pytest.mark.parametrize(
    "document",
    [b"{}", b'{"metadata":{"name":"x","uid":"c","resourceVersion":"1"},"data":{"roster":"{"}}', b"[]"],
)
def test_anything_else_is_no_gang(document: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        GangView(document)


def test_a_roster_that_cannot_be_unpacked_is_no_gang() -> None:
    meta = {"name": "x", "uid": "c", "resourceVersion": "1"}
    with pytest.raises(ValueError, match="incorrect header check"):
        GangView(json.dumps({"metadata": meta, "binaryData": {"roster.gz": "AAAA"}}).encode())
