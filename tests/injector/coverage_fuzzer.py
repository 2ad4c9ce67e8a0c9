"""A fuzzer of the whole request path: `python -m tests.injector.coverage_fuzzer --inputs 100000`.

It is guided by coverage and needs atheris, which `make fuzz` installs. Inputs are changed by the mutations of
`random_fuzzer`: those of libFuzzer rarely leave valid JSON, and then only the first check is reached.
"""

import argparse
import importlib
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

LARGEST = 64 * 1024
# Mutations of an input accumulate, and one of its bytes is enough to make it invalid JSON for good.
BYTES_SHARE = 0.03


def instrumented(atheris: Any) -> ModuleType:
    """Import `random_fuzzer` so that atheris observes each branch of the injector that an input takes."""
    with atheris.instrument_imports(include=["frameworkinjector"]):
        return importlib.import_module("tests.injector.random_fuzzer")


def main() -> int:
    """Fuzz until the number of inputs is reached; stop at an input that breaks an assertion, and write it to a file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    options, rest = parser.parse_known_args()
    atheris: Any = importlib.import_module("atheris")
    fuzz = instrumented(atheris)
    from frameworkinjector.review.config import EnvFiles

    supports, outcomes, started, count = list(EnvFiles), Counter[str](), time.monotonic(), 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        # The input selects the support of the cluster, so that its file alone reproduces a finding.
        outcomes[fuzz.check(data, supports[len(data) % len(supports)]).verdict.reason.slug] += 1
        if count == options.inputs:
            summary = ", ".join(f"{number} {slug}" for slug, number in outcomes.most_common())
            print(f"seed {options.seed}: {count} inputs in {time.monotonic() - started:.0f} s: {summary}", flush=True)

    def mutate(data: bytes, largest: int, seed: int) -> bytes:
        changed: bytes = fuzz.mutated([data], random.Random(seed), BYTES_SHARE)
        return changed[:largest]

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(fuzz.seeds()):
            Path(corpus, str(number)).write_bytes(seed)
        bounds = [f"-runs={options.inputs}", f"-seed={options.seed}", f"-max_len={LARGEST}", "-cross_over=0"]
        findings = f"-artifact_prefix={tempfile.gettempdir()}/injector-"
        atheris.Setup([sys.argv[0], *bounds, findings, *rest, corpus], one, custom_mutator=mutate)
        # Does not return: the process exits with 0, or with libFuzzer's exit code for a finding.
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
