//! Tests of the folder store: on the real file system, and on one that loses what was not synced.

mod power;
mod real;
