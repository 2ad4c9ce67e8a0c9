"""What the benchmarks have measured, as `docs/scale.md` shows it: its tables and its picture.

The benchmarks write `build/bench/*.json`. `python -m frameworkrelease.scale` keeps these figures in `docs/scale.json`,
from which `make manifests` makes the page and the picture.
"""
