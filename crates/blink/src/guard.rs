//! The rules of pages that a mutant run can take away, one at a time.
//!
//! Without the feature `mutants` no rule can be removed and asking costs nothing. The functions of
//! this crate are pure and have no settings, so the removed rule is a property of the thread. The
//! public API is the same in both builds.

/// One rule that can be removed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// P1, DB-4: a record with an older stamp than its register has no effect.
    SlotStamps,
    /// P2, DB-4: an update does not revive a deleted key.
    TwoRegisters,
    /// P3: a delete leaves a dead slot.
    DeadSlots,
    /// P3, DB-5: a record at or below the horizon is refused where its slot is absent.
    Horizon,
    /// P3: the horizon holds for each register of a slot, not only for the slot.
    HorizonPerRegister,
    /// P3: removing a slot raises the horizon.
    HorizonRises,
    /// P3: the pages that a split creates keep the horizon.
    HorizonInherited,
    /// P4, DB-6: a record at or above the high key belongs to another page.
    HighKey,
    /// P5, DB-6: an inner page forwards records down.
    ForwardDown,
    /// A split writes the batch's records of the upper half into the new page.
    UpperInRight,
    /// P6: created pages start at the LSN of the left page's new version.
    Lineage,
    /// A pending record counts as covered when the page reflects it, not before.
    Covers,
    /// A clock is advanced by the stamps that its client reads.
    ObserveReads,
    /// DB-9: marks of a session belong to key ranges.
    Marks,
}

/// Whether `guard` is in place.
#[cfg(feature = "mutants")]
pub(crate) fn has(guard: Guard) -> bool {
    REMOVED.get() != Some(guard)
}

/// Whether `guard` is in place: it is.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn has(_guard: Guard) -> bool {
    true
}

/// Runs `body` on this thread without `guard`.
#[cfg(feature = "mutants")]
pub fn without<T>(guard: Guard, body: impl FnOnce() -> T) -> T {
    let before = REMOVED.replace(Some(guard));
    let result = body();
    REMOVED.set(before);
    result
}

#[cfg(feature = "mutants")]
thread_local! {
    static REMOVED: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}
