//! BoxUsage: the machine hours that SimpleDB says a request took.
//!
//! Synthetic constants that fit every recorded reply of the service; where none is recorded the
//! estimate says so. Unit: ten-billionths of an hour (1e-10 h), the precision of the wire.

/// Machine time in units of 1e-10 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoxUsage(pub u64);

impl BoxUsage {
    /// What a refused request costs, whatever the action.
    pub const REFUSED: BoxUsage = BoxUsage(219_907);
}

impl std::fmt::Display for BoxUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{:010}",
            self.0 / 10_000_000_000,
            self.0 % 10_000_000_000
        )
    }
}
