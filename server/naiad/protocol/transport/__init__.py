"""Sockets, timeouts and draining: what carries a protocol, whichever it is."""
