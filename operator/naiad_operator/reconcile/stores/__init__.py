"""What a reconcile knows without a request: services, profiles and the labels of namespaces."""
