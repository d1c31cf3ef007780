"""Settings of all tests."""

import hypothesis

# No deadline for one example, nor for making some: a busy machine is not a fault of the code.
hypothesis.settings.register_profile(
    "naiad", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("naiad")
