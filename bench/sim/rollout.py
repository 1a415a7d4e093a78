"""How often is a rollout's verdict right, and how soon?

Workload: seeded rollouts at 50 requests a second; batches of 1 + Poisson(11) share a lognormal
latency (sigma 0.6); an AR(1) load wave (sd 0.25 in the logarithm) moves rate and latency of both
versions. Null baselines: identical versions, and the classic window policy on the same traffic.
Machine: any; the outcome depends on the seed alone. Command: python -m bench.sim.rollout
"""

import sys

from headway.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["rollout", "simulate"]
    main()
