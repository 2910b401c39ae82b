//! What the tests of all files share: a store of pages in memory, and records to write.

mod checker;
mod pending;
mod queued;
mod session;
mod split;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use crate::apply::{Applied, Change, Target};
use crate::envelope::NONCE_BYTES;
use crate::{
    Edition, HybridTime, Op, Page, PageId, Payload, Pointer, Record, Separator, Sizes, Stamp,
    apply, check, check_step, post, search,
};

pub(crate) const ROOT: PageId = PageId(0);

/// Runs `body` with an edition whose random bytes count up from `seed`.
pub(crate) fn edition<T>(seed: &mut u64, body: impl FnOnce(&mut Edition<'_>) -> T) -> T {
    let mut random = || {
        *seed += 1;
        let mut nonce = [0; NONCE_BYTES];
        nonce[8..16].copy_from_slice(&seed.to_be_bytes());
        nonce
    };
    let (key, written_ms) = (0, 1_700_000_000_000);
    body(&mut Edition {
        key,
        written_ms,
        random: &mut random,
    })
}

pub(crate) fn stamp(time: u64) -> Stamp {
    Stamp {
        time: HybridTime(time),
        client: 1,
        sequence: 0,
    }
}

pub(crate) fn inline(text: impl Into<Bytes>) -> Payload {
    Payload::Inline(text.into())
}

pub(crate) fn insert(key: &str, time: u64, text: &str) -> Record {
    record(key, time, Op::Insert(inline(text.to_owned())))
}

pub(crate) fn update(key: &str, time: u64, text: &str) -> Record {
    record(key, time, Op::Update(inline(text.to_owned())))
}

pub(crate) fn delete(key: &str, time: u64) -> Record {
    record(key, time, Op::Delete)
}

fn record(key: &str, time: u64, op: Op) -> Record {
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        stamp: stamp(time),
        op,
    }
}

pub(crate) fn small() -> Sizes {
    Sizes::new(400, 300).expect("sizes within the bounds")
}

/// A tree in memory, written by one checkpointer.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) pages: BTreeMap<PageId, Page>,
    pub(crate) sizes: Sizes,
    pub(crate) seed: u64,
    pub(crate) refused: usize,
}

impl Tree {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let mut seed = 0;
        let root = edition(&mut seed, |edition| Page::empty(Stamp::ZERO, edition));
        Tree {
            pages: BTreeMap::from([(ROOT, root)]),
            sizes,
            seed,
            refused: 0,
        }
    }

    pub(crate) fn page(&self, id: PageId) -> Option<&Page> {
        self.pages.get(&id)
    }

    pub(crate) fn leaf(&self, key: &[u8]) -> PageId {
        search(ROOT, key, |id| self.page(id))
            .expect("a whole tree")
            .id
    }

    /// A checkpoint of one page.
    pub(crate) fn apply(&mut self, id: PageId, records: &[Record], prune: HybridTime) -> Applied {
        let (page, sizes) = (self.pages[&id].clone(), self.sizes);
        let applied = edition(&mut self.seed, |edition| {
            apply(&page, records, prune, &sizes, edition)
        });
        self.refused += applied.refused.len();
        if let Some(change) = &applied.change {
            self.write(id, change);
        }
        applied
    }

    pub(crate) fn write(&mut self, id: PageId, change: &Change) {
        check_step(&self.pages[&id], &change.page).expect("a step that follows");
        for (id, page) in &change.created {
            assert_eq!(
                page.lsn(),
                change.page.lsn(),
                "P6: a created page goes on from the left one"
            );
            assert_eq!(
                page.horizon(),
                change.page.horizon(),
                "P3: a created page has the horizon"
            );
            assert!(
                self.pages.insert(*id, page.clone()).is_none(),
                "an id is used once"
            );
        }
        self.pages.insert(id, change.page.clone());
    }

    /// Applies records to their pages, following forwards; returns the separators that no step
    /// posted.
    pub(crate) fn write_all(&mut self, at: PageId, records: &[Record]) -> Vec<Separator> {
        let mut todo = vec![(at, records.to_vec())];
        let mut separators = Vec::new();
        while let Some((id, records)) = todo.pop() {
            let applied = self.apply(id, &records, HybridTime::ZERO);
            separators.extend(
                applied
                    .change
                    .into_iter()
                    .flat_map(|change| change.separators),
            );
            for forward in applied.forwards {
                let id = match forward.target {
                    Target::Page(id) => id,
                    Target::Root => ROOT,
                };
                todo.push((id, vec![forward.item]));
            }
        }
        separators
    }

    /// Posts separators, and those of the splits that posting makes.
    pub(crate) fn post_all(&mut self, separators: Vec<Separator>) {
        let mut todo: Vec<_> = separators.into_iter().map(|item| (ROOT, item)).collect();
        while let Some((id, item)) = todo.pop() {
            let (page, sizes) = (self.pages[&id].clone(), self.sizes);
            let posted = edition(&mut self.seed, |edition| {
                post(&page, &[item], &sizes, edition)
            });
            assert_eq!(posted.conflicts, []);
            for forward in posted.forwards {
                match forward.target {
                    Target::Page(id) => todo.push((id, forward.item)),
                    Target::Root => todo.push((ROOT, forward.item)),
                }
            }
            if let Some(change) = posted.change {
                self.write(id, &change);
                todo.extend(change.separators.into_iter().map(|item| (ROOT, item)));
            }
        }
    }

    /// All visible records, by a scan of the leaves.
    pub(crate) fn scan(&self) -> BTreeMap<Vec<u8>, Payload> {
        let mut scan = crate::range(ROOT, b"", None, |id| self.page(id)).expect("a whole tree");
        let mut found = BTreeMap::new();
        let mut last = None;
        while let Some((key, payload)) = scan
            .next_with(|page, key, payload| (key.to_vec(), payload.to_payload(page)))
            .expect("a whole tree")
        {
            assert!(last < Some(key.clone()), "a scan is in order");
            last = Some(key.clone());
            found.insert(key, payload);
        }
        found
    }

    pub(crate) fn check(&self) -> crate::Report {
        let report = check(ROOT, |id| self.page(id));
        assert_eq!(report.problems, []);
        report
    }
}

/// The specification: operations of a key in the order of their stamps; an update of an absent key
/// does nothing.
pub(crate) fn expected(records: &[Record]) -> BTreeMap<Vec<u8>, Payload> {
    let mut sorted: Vec<_> = records.iter().collect();
    sorted.sort_by_key(|record| record.stamp);
    let mut state = BTreeMap::new();
    for record in sorted {
        let key = record.key.to_vec();
        match &record.op {
            Op::Insert(payload) => drop(state.insert(key, payload.clone())),
            Op::Update(payload) => {
                state.entry(key).and_modify(|old| *old = payload.clone());
            }
            Op::Delete => drop(state.remove(&key)),
        }
    }
    state
}

pub(crate) fn any_payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(|b| Payload::Inline(b.into())),
        1 => (any::<u128>(), any::<u64>(), any::<u32>()).prop_map(|(object, size, crc32c)| {
            Payload::Object(Pointer { object, size, crc32c })
        }),
    ]
}

pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any_payload().prop_map(Op::Insert),
        2 => any_payload().prop_map(Op::Update),
        2 => Just(Op::Delete),
    ]
}

/// Keys with long common beginnings, and ends that are equal but for their length.
pub(crate) fn any_key() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        "[ab]{0,4}".prop_map(|text: String| Bytes::from(text)),
        "user0000[0-9]{1,3}".prop_map(|text: String| Bytes::from(text)),
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(255)], 0..8).prop_map(Bytes::from),
    ]
}

pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    (any_key(), 1..40_u64, 0..3_u64, any_op()).prop_map(|(key, time, client, op)| Record {
        key,
        stamp: Stamp {
            time: HybridTime(time),
            client,
            sequence: 0,
        },
        op,
    })
}
