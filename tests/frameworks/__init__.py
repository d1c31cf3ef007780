"""Tests that need a framework which is not in the tests' own environment: `make test-frameworks` has one with all of them."""
