"""Frameworks in a cluster: how they are changed, read in pages, followed, and waited for.

`actions` decides what a change is and when a goal is reached, and `again` submits one again that is Completed; `pages`
and `following` read.
"""
