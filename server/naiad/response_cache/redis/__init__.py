"""The response cache in Redis: the protocol, a client without tasks, a circuit breaker, and the store made of them."""
