//! What the index of a bucket does, rule by rule.

mod access;
mod bounds;
mod buckets;
mod chains;
mod fences;
mod fixture;
mod lifecycle;
mod lists;
mod model;
mod multipart;
#[cfg(feature = "mutants")]
mod mutants;
mod objects;
mod tentative;
