"""The barrier: its start, and the release of a gang of 1,000.

`__main__` says how many and how often, `start` measures one start, `clients` starts many barriers, `gang` is what they
wait for.
"""
