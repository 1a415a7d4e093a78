"""Fixtures' building blocks: real gateways and workers on real sockets, in this process."""
