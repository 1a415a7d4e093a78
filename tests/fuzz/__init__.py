"""Bad input at the wire. `python -m tests.fuzz --minutes 10` runs it for longer."""
