"""The part of the controller that acts: observe, let the core decide, write the status, act, observe again.

`engine` has a `workqueue` of Frameworks and one loop; `actions` sorts effects into the executors of `workers`, which
bound how many run at a time. `quarantine` keeps what raised, `rest` what is Completed, `run` starts it all.
"""
