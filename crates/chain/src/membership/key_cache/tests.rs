//! Keys come, go, and are asked for; strangers invent ids.

use proptest::prelude::*;

use super::*;

/// S in milliseconds.
const SESSION: u64 = 2_000;
const ID: &str = "AKIA";

fn cache(guards: Guards) -> KeyCache<bool> {
    KeyCache::new(SESSION, guards)
}

/// A key is used every `step`, and changes from `before` to `after` at `changed`. Each question is
/// answered after `way`, as the key stood when it was asked. What each use found, with its time: an
/// active key, a disabled one, or none.
fn uses(
    guards: Guards,
    (step, way, changed): (u64, u64, u64),
    (before, after): (Option<bool>, Option<bool>),
) -> Vec<(u64, Option<bool>)> {
    let mut cache = cache(guards);
    let mut found = Vec::new();
    let mut now = 0;
    while now < changed + 10 * SESSION {
        match cache.get(ID, now) {
            CachedKey::Key(is_active) => found.push((now, Some(is_active))),
            CachedKey::Absent => found.push((now, None)),
            CachedKey::Unknown if cache.may_ask(ID, now) => {
                let (asked, key) = (now, if now < changed { before } else { after });
                now += way;
                if cache.on_answer(ID, asked, now, key) {
                    found.push((now, key));
                }
            }
            CachedKey::Unknown => {}
        }
        now += step;
    }
    found
}

proptest! {
    #[test]
    fn a_disabled_key_opens_nothing_after_a_session(
        step in 1..300_u64,
        way in 0..2 * SESSION,
        disabled in 0..5 * SESSION,
    ) {
        let found = uses(Guards::default(), (step, way, disabled), (Some(true), Some(false)));
        let last = found.iter().rfind(|(_, key)| *key == Some(true));
        prop_assert!(last.is_none_or(|(at, _)| *at < disabled + SESSION), "{:?}", last);
    }

    #[test]
    fn a_new_key_opens_after_a_session(
        step in 1..300_u64,
        way in 0..SESSION / 2,
        made in 0..5 * SESSION,
    ) {
        let found = uses(Guards::default(), (step, way, made), (None, Some(true)));
        let last = found.iter().rfind(|(_, key)| key.is_none());
        prop_assert!(last.is_none_or(|(at, _)| *at < made + SESSION), "{:?}", last);
        prop_assert!(found.iter().any(|(_, key)| *key == Some(true)));
    }
}

#[test]
fn an_id_without_a_key_is_asked_for_once_in_half_a_session() {
    let mut cache = cache(Guards::default());
    let mut asked = 0;
    for now in 0..SESSION {
        if cache.get(ID, now) == CachedKey::Unknown && cache.may_ask(ID, now) {
            asked += 1;
            assert!(cache.on_answer(ID, now, now, None));
        }
    }
    assert_eq!(asked, 2);
}

/// Questions in `seconds` in which a thousand requests a second name new ids.
fn questions(cache: &mut KeyCache<bool>, seconds: u64) -> u64 {
    let may_ask = |now: &u64| cache.may_ask(&format!("stranger{now}"), *now);
    (0..seconds * 1_000).filter(may_ask).count() as u64
}

#[test]
fn invented_ids_are_asked_for_so_often_in_a_second_only() {
    let asked = questions(&mut cache(Guards::default()), 10);
    assert!(
        (10 * ASKED_PER_S..=11 * ASKED_PER_S).contains(&asked),
        "{asked}"
    );
}

#[test]
fn a_key_that_was_known_is_asked_for_while_strangers_take_the_allowance() {
    let mut cache = cache(Guards::default());
    assert!(cache.on_answer(ID, 0, 0, Some(true)));
    questions(&mut cache, 10);
    assert_eq!(cache.get(ID, 10_000), CachedKey::Unknown);
    assert!(!cache.may_ask("another", 9_999));
    assert!(cache.may_ask(ID, 9_999));
}

#[test]
fn ids_are_remembered_up_to_a_bound() {
    let mut cache = cache(Guards::default());
    assert!(cache.on_answer(ID, 0, 0, Some(true)));
    for stranger in 0..3 * ENTRIES_MAX {
        assert!(cache.on_answer(&format!("stranger{stranger}"), 0, 0, None));
        assert!(cache.absent.len() <= ENTRIES_MAX);
    }
    assert_eq!(cache.get(ID, 0), CachedKey::Key(true));
}

#[test]
fn an_id_is_forgotten_where_its_key_changes() {
    let mut cache = cache(Guards::default());
    for key in [None, Some(true)] {
        assert!(cache.on_answer(ID, 0, 0, key));
        cache.forget(ID);
        assert_eq!(cache.get(ID, 0), CachedKey::Unknown);
    }
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    #[test]
    fn without_its_end_a_disabled_key_opens_after_a_session() {
        let mutant = Guards::without(vec![Guard::CachedKeyEnds]);
        let found = uses(mutant, (100, 10, SESSION), (Some(true), Some(false)));
        let (at, key) = *found.last().unwrap();
        assert!(2 * SESSION <= at && key == Some(true), "{at}");
    }

    #[test]
    fn without_a_bound_each_invented_id_is_asked_for() {
        let mutant = Guards::without(vec![Guard::UnknownKeysBounded]);
        assert_eq!(questions(&mut cache(mutant), 10), 10_000);
    }
}
