"""The only code that knows gRPC: statuses, conversions, servers, channels, interceptors."""
