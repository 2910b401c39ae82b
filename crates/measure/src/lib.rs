//! Load generation, operation log, statistics and plots.
