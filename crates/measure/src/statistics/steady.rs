//! When a run is warm: MSER-5 (White, Cobb and Spratt, 2000).
//!
//! Observations in their order go into batches of five. The cut is where the rest's mean has the
//! least standard error. There the bias of what is cut off and the noise of what is kept balance. A
//! least error in the second half says that the run was not steady.

/// Observations of a batch.
const BATCH: usize = 5;

/// Where a run begins to be steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WarmUp {
    /// Observations to leave out.
    pub cut: usize,
    /// Whether the rest is steady; if not, half of the run is left out.
    pub is_steady: bool,
}

/// The warm-up of observations in their order; none of fewer than 20.
pub fn warm_up(observations: impl Iterator<Item = f64>) -> WarmUp {
    let mut means = Vec::new();
    let mut batch = (0.0, 0);
    for value in observations {
        batch = (batch.0 + value, batch.1 + 1);
        if batch.1 == BATCH {
            means.push(batch.0 / BATCH as f64);
            batch = (0.0, 0);
        }
    }
    if means.len() < 4 {
        return WarmUp {
            cut: 0,
            is_steady: true,
        };
    }
    // From the end: count, mean and sum of squares about it (Welford), so that each cut costs one
    // step.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (at, value) in means.iter().enumerate().rev() {
        count += 1.0;
        let before = value - mean;
        mean += before / count;
        squares += before * (value - mean);
        let error = squares / (count * count);
        // The last five batches say nothing: by chance they are alike.
        if 5.0 < count && error <= best.0 {
            best = (error, at);
        }
    }
    let half = means.len() / 2;
    WarmUp {
        cut: best.1.min(half) * BATCH,
        is_steady: best.1 <= half,
    }
}

#[cfg(test)]
mod tests;
