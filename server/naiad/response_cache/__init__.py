"""The response cache (rows 14.22 to 14.27): the responses of models whose config asks for it, in the server's memory or in Redis."""
