"""The nouns that every layer shares: tensors, requests, responses, time."""
