"""Somebody else's policies, measures, channels, tasks and averages."""
