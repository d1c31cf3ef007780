"""The API that models call (BLS): inference by other models, model control, metrics; for threads and for worker processes."""
