"""Calls of models to the server (business logic scripting): inference, model control, metrics; from threads and from worker processes."""
