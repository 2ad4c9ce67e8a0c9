"""State machines of a Framework and of a Task: a value and an observation go in, the next value and action come out.

They also choose the predefined code of an end: deleted by others, timed out, scaled down.
"""
