"""The resource: its typed model, what the model generates, and what makes a manifest valid."""
