"""The real tritonserver, installed and started: what conformance and benchmarks hold Naiad against."""
