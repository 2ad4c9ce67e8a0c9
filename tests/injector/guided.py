"""The fuzzer of ``fuzz``, guided by coverage: ``python -m injector.guided --inputs 100000`` from the folder ``tests``.

It needs atheris (``make fuzz`` installs it). Inputs are changed by our own mutations: those of libFuzzer leave no JSON,
and then only the first check is reached.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

LARGEST = 64 * 1024
# Changes add up, and one of bytes among many is enough to leave no JSON.
BYTES_SHARE = 0.03


def instrumented(atheris: Any) -> ModuleType:
    """The fuzzer's parts, imported so that each branch of the injector that an input takes is seen."""
    with atheris.instrument_imports(include=["frameworkinjector"]):
        return importlib.import_module("injector.fuzz")


def main() -> int:
    """Fuzzes until the number of inputs is reached; an input that breaks a promise is written to a file and ends it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    options, rest = parser.parse_known_args()
    atheris: Any = importlib.import_module("atheris")
    fuzz = instrumented(atheris)
    from frameworkinjector.config import EnvFiles

    supports, outcomes, started, count = list(EnvFiles), Counter[str](), time.monotonic(), 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        # Which cluster it is follows from the input, so that a finding can be repeated from its file alone.
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
        # Does not return: the process ends with 0, or with libFuzzer's code of a finding.
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
