"""Decisions as functions of values: what it may see goes in, what shall be done comes out.

Nothing here knows a client, a clock, a logger, randomness or the environment. One
:class:`~.reconciler.FrameworkReconciler` per Framework is fed with what was observed and what became of its effects,
and says what to do next; the engine, or a test, performs it.
"""
