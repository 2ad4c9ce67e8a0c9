"""Everything goes wrong at random, on a real API server: the run of `make chaos` (`controller/test_chaos.py`)."""
