"""From a model's folder to its configuration: what is read, completed, replaced and converted."""
