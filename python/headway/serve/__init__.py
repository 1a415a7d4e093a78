"""A whole Headway on one machine: a gateway and a small fleet as child processes."""
