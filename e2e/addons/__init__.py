"""What a cluster needs beside Kubernetes for the stories: DNS, an ingress controller, an object store, Prometheus with its adapter; and Naiad itself."""
