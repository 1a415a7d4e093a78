"""The gateway: admits requests, batches them, routes the batches and answers."""
