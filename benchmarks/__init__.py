"""Speed, measured beside the real tritonserver in one run: `make bench`. Ratios, not absolute figures; never a timed test."""
