"""A start of the controller in a full cluster, which `fill` fills; `in_pages` fills its caches the other way."""
