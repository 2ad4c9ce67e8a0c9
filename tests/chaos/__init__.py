"""Everything goes wrong at random, on a real API server: the run of `tests/apiserver/test_chaos.py`, `make chaos`."""
