"""List and watch: a cache of objects that recovers from every fault of a connection.

`informer` lists and follows, `lists` has the ways to list, `watch_events` decodes, `contents` leaves out what is
broken, `store` keeps the objects.
"""
