"""Certificates: which files, what is in them, and what they prove. Knows no gRPC."""
