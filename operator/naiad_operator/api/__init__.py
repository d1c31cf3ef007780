"""The resource: its typed model, what is generated from the model, and the validation of manifests."""
