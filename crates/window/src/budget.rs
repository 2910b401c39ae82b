//! How many requests may be sent again after an error or a timeout.
//!
//! A service that fails gets few requests twice: a retry costs a token, an answered request earns a
//! tenth of one. A request refused for overload costs none. It did no work there, and the window,
//! which has just shrunk, already bounds how often anything is sent.

/// Tokens at the start, and at most. Bound: 1 upwards. 100 pass over a restart of one server of a
/// service without a failure of ours, and are soon gone when all of them fail.
const TOKENS_MAX: u32 = 100;
/// Tokens that an answer earns: in the long run at most one retry in ten requests. Bound: 0 to 1.
const EARNED: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Budget {
    tokens: f64,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget {
            tokens: f64::from(TOKENS_MAX),
        }
    }

    pub(crate) fn earn(&mut self) {
        self.tokens = (self.tokens + EARNED).min(f64::from(TOKENS_MAX));
    }

    /// Takes a token if there is one.
    pub(crate) fn spend(&mut self) -> bool {
        let is_rich = 1.0 <= self.tokens;
        if is_rich {
            self.tokens -= 1.0;
        }
        is_rich
    }
}
