"""Progressive rollouts decided by evidence.

`policy` has the rules; `judge` scores ticks of outcomes and decides; `controller` is one rollout
with its verdicts; `tap` counts outcomes on the request path; `simulation` runs thousands of seeded
rollouts through the same judge.
"""
