"""The only package that imports kopf. kopf watches the resource, and each event only adds the service to the queue."""
