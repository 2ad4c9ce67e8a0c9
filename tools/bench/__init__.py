"""Benchmarks of the programs; `make scale` takes over what they have measured into docs/performance.md."""
