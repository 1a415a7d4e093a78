"""Rollouts in a gateway: taps on the request path, and the loop that decides where it leads."""
