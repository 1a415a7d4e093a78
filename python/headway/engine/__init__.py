"""The worker's engine for generative models: prefill and decode, scheduled step by step."""
