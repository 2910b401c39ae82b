"""Benchmarks of clusters of real processes: `python -m benchmarks NAME`, which `cargo xtask bench`
runs. Sides of a comparison are interleaved; a result is a median with its interval, and a ratio."""
