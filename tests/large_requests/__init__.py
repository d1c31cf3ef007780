"""Large requests and responses to a real server, and how late they make its event loop."""
