"""The control plane of HTTP: metadata, repository, statistics, and the API's description."""
