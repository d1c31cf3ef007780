"""Tests of the response cache in Redis."""
