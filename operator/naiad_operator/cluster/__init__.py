"""The connection to the API server: credentials, requests, lists and watches. No other package sends requests to it."""
