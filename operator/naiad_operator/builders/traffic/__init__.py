"""Builders of how requests and scrapes reach a service: Services, Ingresses, routes, NetworkPolicy, monitors."""
