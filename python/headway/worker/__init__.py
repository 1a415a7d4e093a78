"""The worker: hosts model versions and executes batches for gateways."""
