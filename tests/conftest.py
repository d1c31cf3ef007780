"""Settings of all tests."""

import hypothesis

# No deadline for one example: a busy machine is not a fault of the code.
hypothesis.settings.register_profile("naiad", deadline=None)
hypothesis.settings.load_profile("naiad")
