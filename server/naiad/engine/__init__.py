"""The engine: looks up the model of a request, validates the request, and passes it to the model's scheduler."""
