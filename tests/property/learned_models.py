"""What the core learns, in plain Python: obvious, slow, and written from the contract alone."""

import math
from bisect import insort
from fractions import Fraction

MASK = 2**64 - 1


class PlainRng:
    """xoshiro256++ seeded by SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
            self.state.append(mixed ^ (mixed >> 31))

    def next_u64(self) -> int:
        a, b, c, d = self.state
        result = (_rotated((a + d) & MASK, 23) + a) & MASK
        shifted = (b << 17) & MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        self.state = [a, b, c, _rotated(d, 45)]
        return result

    def uniform(self) -> float:
        return (self.next_u64() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        while True:
            product = self.next_u64() * bound
            if product & MASK >= (2**64 - bound) % bound:
                return product >> 64


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & MASK


class PlainEdfQueue:
    """A sorted list."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int]] = []

    def push(self, ticket: int, deadline_ns: int, units: int) -> bool:
        if any(entry[1] == ticket for entry in self.entries):
            return False
        insort(self.entries, (deadline_ns, ticket, units))
        return True

    def remove(self, ticket: int) -> bool:
        before = len(self.entries)
        self.entries = [entry for entry in self.entries if entry[1] != ticket]
        return len(self.entries) < before

    def peek(self) -> tuple[int, int] | None:
        return (self.entries[0][1], self.entries[0][0]) if self.entries else None

    def before(self, deadline_ns: int) -> tuple[int, int]:
        found = [entry[2] for entry in self.entries if entry[0] <= deadline_ns]
        return len(found), sum(found)


class PlainCostModel:
    """Weighted least squares over every batch ever seen."""

    def __init__(self, intercept: float, slope: float) -> None:
        self.intercept, self.slope = intercept, slope
        self.seen: list[list[float]] = []  # weight, units, device time as counted
        self.count = 0
        self.residuals: list[float] = []
        self.run: list[tuple[int, float]] = []
        self.tolerated = 0.25

    def predict(self, units: int) -> float:
        return self.intercept + self.slope * units

    def observe(self, units: int, device_ns: float) -> None:
        if device_ns <= 0:
            return
        counted = device_ns
        if self.count >= 4:
            self._notice(units, device_ns)
            predicted = max(self.predict(units), 1.0)
            counted = min(max(device_ns, predicted / 4), predicted * 4)
        for batch in self.seen:
            batch[0] *= 0.98
        self.seen.append([1.0, units, counted])
        self.count += 1
        if self.count >= 4:
            self._fit()
        else:
            ratio = device_ns / max(self.predict(units), 1.0)
            if not 1 / 16 <= ratio <= 16:
                self.intercept *= ratio
                self.slope *= ratio

    def _notice(self, units: int, device_ns: float) -> None:
        ratio = device_ns / max(self.predict(units), 1.0)
        off, distance = ratio - 1, max(ratio, 1 / ratio) - 1
        if distance <= self.tolerated or (self.run and (self.run[-1][1] > 0) != (off > 0)):
            self.run = []
        if not self.run:
            last = self.residuals[-64:]
            usual = sum(map(abs, last)) / len(last) if last else 0.0
            self.tolerated = max(0.25, 4 * usual)
        if distance > self.tolerated:
            self.run.append((units, math.copysign(device_ns, off)))
        if len(self.run) < 3:
            self.residuals.append(off)
            return
        logs = [math.log(abs(ns) / max(self.predict(units), 1.0)) for units, ns in self.run]
        step = math.exp(sum(logs) / 3)
        for batch in self.seen:
            batch[0] *= 0.05
            batch[2] *= step
        self.intercept *= step
        self.slope *= step
        self.residuals, self.run = [], []

    def _fit(self) -> None:
        total = sum(w for w, _, _ in self.seen)
        mean_x = sum(w * x for w, x, _ in self.seen) / total
        mean_y = sum(w * y for w, _, y in self.seen) / total
        spread = sum(w * (x - mean_x) ** 2 for w, x, _ in self.seen) / total
        if spread > 0.08**2 * mean_x**2:
            both = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in self.seen) / total
            self.slope = both / spread
        self.intercept = mean_y - self.slope * mean_x
        if self.slope < 0:
            self.intercept, self.slope = mean_y, 0.0
        elif self.intercept < 0:
            over_xx = sum(w * x * x for w, x, _ in self.seen)
            self.intercept = 0.0
            self.slope = sum(w * x * y for w, x, y in self.seen) / over_xx

    def quantile(self, units: int, quantile: float) -> float:
        last = sorted(self.residuals[-64:])
        if not last:
            return self.predict(units)
        place = quantile * (len(last) - 1)
        low, high = last[math.floor(place)], last[math.ceil(place)]
        return self.predict(units) * (1 + low + (high - low) * (place - math.floor(place)))


class PlainTokenBucket:
    """Exact rational arithmetic."""

    def __init__(self, now_ns: int, units_per_s: int, burst_units: int) -> None:
        self.rate = Fraction(units_per_s, 10**9)
        self.burst = Fraction(burst_units)
        self.level = self.burst
        self.at_ns = now_ns

    def advance(self, now_ns: int) -> None:
        self.level = min(self.burst, self.level + self.rate * (now_ns - self.at_ns))
        self.at_ns = now_ns

    def wait_ns(self, units: int) -> int:
        if units > self.burst:
            return -1
        return max(0, math.ceil((units - self.level) / self.rate))


class PlainPeakEwma:
    """The definition, with the prior the estimate falls back to."""

    def __init__(self, decay_ns: int, prior_ns: int) -> None:
        self.decay_ns, self.prior_ns = decay_ns, prior_ns
        self.level: float | None = None
        self.at_ns = 0

    def observe(self, now_ns: int, latency_ns: int) -> None:
        if self.level is None or latency_ns >= self.level:
            self.level = latency_ns
        else:
            kept = math.exp(-(now_ns - self.at_ns) / self.decay_ns)
            self.level = self.level * kept + latency_ns * (1 - kept)
        self.at_ns = now_ns

    def value_ns(self, now_ns: int) -> float:
        if self.level is None:
            return self.prior_ns
        kept = math.exp(-(now_ns - self.at_ns) / self.decay_ns)
        return self.prior_ns + (self.level - self.prior_ns) * kept


def upper_edge(value: int) -> int:
    """Largest integer that shares a bucket with `value`: 64 buckets an octave."""
    if value < 64:
        return value
    width = 1 << (value.bit_length() - 7)
    return value - value % width + width - 1


def quantile_of(values: list[int], q: float) -> int:
    """The value of rank ceil(q * n), at least the first, as a histogram bucket shows it."""
    if not values:
        return 0
    ordered = sorted(values)
    rank = max(1, math.ceil(q * len(ordered)))
    return upper_edge(ordered[rank - 1])
