"""The HTTP servers of the programs: a listener with bounds, and the health port."""
