"""Model runtimes, behind one small protocol (`headway.runtimes.base.Runtime`)."""
