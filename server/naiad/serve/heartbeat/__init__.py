"""The heartbeat of the event loop: how late it is, and where the loop was when it was late."""
