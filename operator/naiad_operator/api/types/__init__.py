"""The types of the resource's parts, from which its schema and its reference page are made."""
