"""A start of the controller in a full cluster."""
