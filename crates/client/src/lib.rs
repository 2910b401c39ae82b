//! A signing HTTP client for SimpleDB endpoints.
