"""Inferences whose work is another one: calls between models, and those that wait for each other for ever."""
