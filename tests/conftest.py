"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A loaded machine draws and runs examples slowly; that says nothing about the code.
settings.register_profile("antiphon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("antiphon")
