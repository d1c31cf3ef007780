"""Timers of schedulers, precise to microseconds."""
