"""What `rendered` makes of the golden Pods, without a server: the same as a review."""

from __future__ import annotations

import pytest

from frameworkinjector.offline.documents import RenderError
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import Reason, RefusalError
from tests.injector.golden_pods import GOLDEN, INJECTED, REFUSED, config_of, env_files_of, injected_of, pod_of
from tests.injector.reviews import CONFIG
from tests.support.rows import each


@each("case", INJECTED)
def test_the_result_is_what_the_webhook_would_make_of_the_pod(case: str) -> None:
    # The golden outcomes are those of the namespace demo, which the Pod or the caller says.
    result, (found,) = rendered(pod_of(case), CONFIG, env_files_of(case), "demo")
    assert (result, found.where, found.verdict.reason) == (injected_of(case), "", Reason.INJECTED)
    pod = pod_of(case)
    pod["metadata"]["namespace"] = "demo"
    golden = injected_of(case)
    golden["metadata"]["namespace"] = "demo"
    assert rendered(pod, CONFIG, env_files_of(case))[0] == golden


@each("case", REFUSED)
def test_a_refusal_has_the_sentence_of_the_webhook(case: str) -> None:
    if case in {"refused-malformed", "refused-no-containers"}:
        with pytest.raises(RenderError):
            rendered(pod_of(case), config_of(case), env_files_of(case))
        return
    with pytest.raises(RefusalError) as refusal:
        rendered(pod_of(case), config_of(case), env_files_of(case))
    assert f"{refusal.value}\n" == (GOLDEN / case / "refused.txt").read_text()
