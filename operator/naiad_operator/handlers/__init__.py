"""The only kopf imports: kopf watches the resource, and an event does nothing but name it to the queue."""
