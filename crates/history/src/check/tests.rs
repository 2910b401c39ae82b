//! Checks on named histories, and their agreement with each other.

mod agreement;
mod brute;
mod named;
mod pictures;
mod story;
