"""The sequence batcher: requests of one sequence run in their order, on one instance, in one slot. Decisions are pure; `scheduler.py` applies them."""
