"""Persons who change a Framework by the page of the whole program, in a browser; a controller acts on it."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.apiserver.history.test_page_rights import SEES, Accounts, patching
from tests.support.beside.player import Player
from tests.support.browser import chromium, visit
from tests.support.history import HistoryProcess

pytestmark = pytest.mark.apiserver


async def test_who_may_changes_a_framework_after_a_confirmation_and_who_may_not_is_told_what_is_missing(
    cluster: Cluster,
    raw: RawClient,
    namespace: str,
    controller: ControllerProcess,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> None:
    accounts, path = Accounts(cluster, raw, namespace), f"/frameworks/{namespace}/training"
    editor = accounts.token("editor", patching("patch frameworks", "delete configmaps"))
    viewer = accounts.token("viewer", SEES)
    history = HistoryProcess(cluster, tmp_path, (namespace,), local=False)
    player.plan = {"worker-0": ["stay"], "worker-1": ["stay"], "worker-2": ["stay"]}
    frameworks.create("training", role("worker", 2), retryPolicy={"maxRetryCount": -2})

    async def attempt_runs(number: int) -> None:
        def runs() -> None:
            status = frameworks.get("training")["status"]
            assert (status["state"], status["attemptStatus"]["id"]) == ("AttemptRunning", number)

        await asyncio.to_thread(eventually, runs, 20)

    with player.playing(), history.running():
        await attempt_runs(0)
        async with chromium() as browser:
            url = f"http://127.0.0.1:{history.port}"
            async with visit(browser, url, viewer) as person:
                tab = await person.go(path)
                await expect(tab.locator(".badge").first).to_have_text("AttemptRunning")
                assert await tab.get_by_role("link", name="Stop…").count() == 0
                await person.go(f"{path}/retry")
                assert f"You may not delete configmaps in namespace {namespace}." in await person.text()
                await person.go(f"{path}/stop")
                assert f"You may not patch frameworks in namespace {namespace}." in await person.text()
                await tab.get_by_role("link", name="All Frameworks").click()
                await tab.get_by_role("link", name="training").wait_for()
            async with visit(browser, url, editor) as person:
                tab = await person.go(path)
                await tab.get_by_role("link", name="Retry…").click()
                await tab.get_by_role("heading", name="Retry training?").wait_for()
                await tab.get_by_role("link", name="Leave it").click()
                await tab.get_by_role("link", name="Retry…").click()
                assert "Its attempt ends: the Pods are deleted." in await person.text()
                await tab.get_by_role("button", name="Retry").click()
                assert await person.text("[role=status]") == "Asked for: retry."
                await attempt_runs(1)
                # The page follows: nobody loads it again.
                attempts = tab.locator(".facts div", has_text="Attempts").locator("dd")
                await expect(attempts).to_have_text("2")
                await tab.get_by_role("link", name="Scale…").click()
                await tab.get_by_label("worker").fill("3")
                await tab.get_by_role("button", name="Scale").click()
                await expect(tab.locator(".facts div", has_text="Ready").locator("dd")).to_have_text("3/3")
                await tab.get_by_role("link", name="Stop…").click()
                await tab.get_by_role("button", name="Stop").click()
                await expect(tab.locator(".badge").first).to_have_text("Failed")
                assert frameworks.get("training")["spec"]["executionType"] == "Stop"
                assert person.complaints == []
    told = [line for line in history.log.splitlines() if "a person changes a Framework" in line]
    assert [line.count(f"serviceaccount:{namespace}:editor") for line in told] == [1, 1, 1], told
