"""Decisions as functions of values: observations go in, effects come out.

Nothing here knows a client, a clock, a logger, randomness or the environment. The engine, or a test, keeps one
`FrameworkReconciler` per Framework, feeds it with what is observed and with the outcomes of its effects, and performs
the effects that it returns.

`events` has the reason and the text of each Event, `effects` what may be asked of the API server, and `clock` times.
"""
