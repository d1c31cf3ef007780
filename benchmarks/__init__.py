"""Speed, measured beside the real tritonserver in one run: `make bench`. Ratios, not absolute numbers; never a timed test."""
