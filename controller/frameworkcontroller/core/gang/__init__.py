"""The gang of a Framework attempt.

`roster` says what the roster contains, `publisher` when it is written and when the Events GangWaiting and GangReady are
sent, `drift` who else has changed it; `gang` has the milestones.
"""
