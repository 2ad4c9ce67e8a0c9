"""The status of a Framework: what is decided, how much of it is persisted, when it is written, and what is reported."""
