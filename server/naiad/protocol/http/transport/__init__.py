"""HTTP/1.1 connections: heads, bodies, pipelining, time limits."""
