"""Every test here runs on both transports of the data port."""

import pytest


@pytest.fixture(params=["native", "grpcio"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)
