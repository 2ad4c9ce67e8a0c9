"""Frameworks in a cluster: how they are changed, read in pages, followed, and waited for.

`actions` decides what a change is, and `again` submits one again that is Completed; `pages`, `following` and `moments`
read, `goals` says what is waited for, `keeping` keeps a manifest until its Framework is there again.
"""
