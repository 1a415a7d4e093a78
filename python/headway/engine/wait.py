"""What the wait for a first token is likely to be."""

import math

PRIOR_NS_PER_TOKEN = 4_000_000.0
PRIOR_STEP_NS = 100_000_000.0
WEIGHT = 0.1


class FirstTokenWait:
    """Wait from admission to the first token, by the prompt tokens that are ahead of it.

    A rate, learned from admissions under the load there is: what the device gives to decoding
    beside the prompts is in it.
    """

    def __init__(self) -> None:
        self._ns_per_token = PRIOR_NS_PER_TOKEN
        # A geometric mean: one prompt of a thousand times the usual size does not make it usual.
        self._log_prompt = math.log(64.0)

    def observe(self, prompt_tokens: int, wait_ns: int) -> None:
        """Learns from a lane whose first token came `wait_ns` after it was admitted."""
        tokens = max(1, prompt_tokens)
        # Not the mean of ratios: a prompt of one token waits for a whole step.
        self._ns_per_token += WEIGHT * (
            wait_ns / (tokens + PRIOR_STEP_NS / PRIOR_NS_PER_TOKEN) - self._ns_per_token
        )
        self._log_prompt += WEIGHT * (math.log(tokens) - self._log_prompt)

    @property
    def usual_prompt(self) -> float:
        """Tokens of a usual prompt."""
        return math.exp(self._log_prompt)

    def predict_ns(self, tokens_ahead: float) -> int:
        """For a usual prompt behind `tokens_ahead` prompt tokens of other lanes."""
        step = PRIOR_STEP_NS / PRIOR_NS_PER_TOKEN
        return round((tokens_ahead + self.usual_prompt + step) * self._ns_per_token)
