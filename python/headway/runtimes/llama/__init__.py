"""llama.cpp behind the engine, through llama-cpp-python's low-level interface."""
