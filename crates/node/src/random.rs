//! Random numbers of the operating system.

use std::io;

use fader_chain::Incarnation;
use rand::TryRng;
use rand::rngs::SysRng;

/// A random number.
pub(crate) fn number() -> io::Result<u64> {
    SysRng.try_next_u64().map_err(io::Error::other)
}

/// An incarnation's name.
pub(crate) fn incarnation() -> io::Result<Incarnation> {
    let halves = [number()?, number()?];
    Ok(Incarnation(
        u128::from(halves[0]) << 64 | u128::from(halves[1]),
    ))
}
