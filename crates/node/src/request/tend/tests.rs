//! What is judged to be missing.

use fader_chain::{ChainId, Change, EntryId};
use fader_services::blocks::{Attempt, BucketId, Command, NewRow, Owner, Put};
use fader_services::catalog::AccountId;
use fader_services::service::{Context, Service as _};
use fader_services::{CollectionId, blocks::Blocks as Rows};

use super::*;
use crate::cluster::Cluster;
use crate::member::Folder;
use crate::settings::Settings;
use crate::storage::blocks::{BlockBytes, Origin};

/// A state that a member shows has the row of a block.
fn put_row(member: &Member, applied: EntryId, id: u128) {
    let put = Command::Put(Put {
        owner: Owner {
            collection: CollectionId(1),
            attempt: Attempt {
                id: 1,
                bucket: BucketId(1),
                begun: EntryId::ZERO,
            },
            upload: None,
        },
        chain: ChainId::SYSTEM,
        number: 1,
        blocks: vec![NewRow {
            id,
            size: 1,
            sum: 0,
        }],
    });
    let account = AccountId("000000000001".to_owned());
    let limits = blocks::Limits::default();
    let context = Context::new(&account, &limits);
    let decided = Rows::decide(&*member.snapshot(), &context, &put);
    let changes = decided.expect("it does not wait").changes;
    let pairs: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Change::Put { key, value } => (key, Some(value)),
            other => panic!("{other:?}"),
        })
        .collect();
    let committed = member.shared().engine.commit(&pairs, applied);
    committed.expect("the engine takes it");
}

fn open(folder: &tempfile::TempDir, lease_ms: u64) -> (Arc<Cluster>, Arc<Member>) {
    let mut settings = Settings::new(folder.path().join("data"));
    settings.limits.blocks.lease_ms = lease_ms;
    let folder = Folder::open_alone(settings).expect("it is opened");
    let (cluster, _) = Cluster::of_one(folder).expect("it is opened");
    let member = cluster.local_member().expect("it runs");
    (cluster, member)
}

/// It shows TE-1.
#[test]
fn bytes_without_a_row_go_when_they_are_older_than_a_lease() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let day = blocks::Limits::default().lease_ms;
    let mut came = false;
    for (lease_ms, is_alone, goes) in [
        (day, true, false),
        (0, true, true),
        // What a start finds went with the uploads of a single node, and later of another one.
        (day, true, true),
        (day, false, false),
    ] {
        let (cluster, member) = open(&folder, lease_ms);
        put_row(&member, member.shared().newest(), 7);
        if !came {
            for id in [7, 8] {
                let bytes = BlockBytes::of(BlockId(id), vec![vec![1].into()]);
                let held = member.blocks().hold(bytes, Origin::Client);
                held.expect("there is room");
            }
        }
        came = true;
        let store = member.blocks().store().expect("it has blocks");
        let rowless = Sweep::default().blocks(&member, &store, is_alone);
        let expected = if goes { vec![BlockId(8)] } else { Vec::new() };
        assert_eq!(rowless, expected, "{lease_ms} {is_alone}");
        cluster.close();
    }
}

/// It shows TE-2.
#[test]
fn a_row_without_bytes_is_no_damage_below_the_safe_point() {
    let folder = tempfile::tempdir().expect("a folder is made");
    let (cluster, member) = open(&folder, 1);
    let newest = cluster.configuration().expect("there is one");
    let (state, store) = (
        member.standpoint(&newest).state,
        member.blocks().make_store(),
    );
    let store = store.expect("it is made");
    put_row(&member, state, 7);
    let missing = |index| {
        let newest = Configuration {
            safe_point: EntryId { index, ..state },
            ..Configuration::clone(&newest)
        };
        let mut sweep = Sweep::default();
        let missing = sweep.rows(&member, &store, &newest);
        (missing, sweep.missing, sweep.rows_done)
    };
    assert_eq!(missing(state.index), (vec![BlockId(7)], 1, true));
    // It is judged when the state is there.
    assert_eq!(missing(state.index + 1), (Vec::new(), 0, false));
    cluster.close();
}
