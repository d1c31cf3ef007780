"""Tests of the operator."""
