"""How often each property is tried: the same examples at each run, so that a failure repeats."""

from hypothesis import settings

settings.register_profile("headway", max_examples=150, deadline=None, derandomize=True)
settings.load_profile("headway")
