"""Fail in the way that the arguments say for this attempt, or succeed: `work.py "1 0" "1 0=200"` exits with 200."""

import sys

TEXTS = {
    1: "a defect of the program",
    200: "transient: the disk of the node is full",
    210: "permanent: the input is not there",
}


def main(now: str, *plan: str) -> int:
    """Return the exit code that is planned for this Task and attempt; 0 if there is none."""
    code = dict(each.split("=") for each in plan).get(now, "0")
    index, attempt = now.split()
    print(f"Task {index}, attempt {attempt}: {TEXTS.get(int(code), 'done')}", flush=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
