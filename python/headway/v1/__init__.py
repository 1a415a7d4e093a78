"""Messages and stubs of the wire API, generated from proto/ by `make proto`."""
