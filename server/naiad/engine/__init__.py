"""The engine: finds the model a request is for, judges the request, and hands it to the model's scheduler."""
