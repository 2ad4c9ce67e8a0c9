"""A live picture of one gang: Kubernetes objects and events go in, text for a terminal or a log comes out.

The package writes to the stream that it is given and does no other I/O. It knows nothing of how a cluster is set up, so
another program that watches a gang can use it. These are the functions for such a program:

- `objects.read_framework`, `read_pod`, `read_roster` reduce a decoded JSON object of the API server to a
  `FrameworkInfo`, `PodInfo` or `RosterInfo`; `objects.expected_tasks` lists the `TaskKey`s of a Framework's spec.
- `events` has a value for everything that can happen, such as `FrameworkObserved(at, framework)`. Times are in seconds
  since the epoch.
- `display.choose_display(stream, environ)` returns a `LiveDisplay` or a `PlainDisplay`; both are context
  managers.
- `store.RunStore(display)` holds the `state.RunState`. Threads call `post(event)`, the main thread `wait(until,
  seconds)`; each event goes through the pure function `transitions.advance(state, event)` to the display.
- `summary.summarize(state, now)` returns the durations of a run as a `Summary`, and `as_json` and `as_lines` write it.

Below these, `render` draws a state for a terminal, `plain` describes the difference of two states as lines, and `text`
has the wording that both share.
"""
