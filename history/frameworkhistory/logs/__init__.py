"""Keeps the ends of logs: reads them before their Pods go, and stores them as objects."""
