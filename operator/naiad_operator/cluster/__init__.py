"""The only place that talks to the API server: credentials, requests, lists and watches."""
