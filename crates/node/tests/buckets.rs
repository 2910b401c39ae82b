//! Objects on a lone node: put, read, replaced, deleted and uploaded in parts; what no version
//! names goes, and its space comes back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;

use std::time::Duration;

use asked::*;
use fader_chain::ChainId;
use fader_node::{BlockFigures, Call, Node, Settings, Unread};
use fader_services::blocks::{NewRow, Owner};
use fader_services::request::Limits;
use fader_services::s3::command::{Command, OneUpload};
use fader_services::s3::conditions::WriteConditions;
use fader_services::s3::reply::Piece;
use fader_services::s3::rows::{Block, Content};
use fader_services::s3::{Code, Reply};
use fader_services::service::Trouble;
use fader_services::{CollectionId, Reason};

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);

fn open(settings: Settings) -> Node {
    Node::open(settings).unwrap().0
}

fn figures(node: &Node) -> BlockFigures {
    node.counters().blocks
}

/// Waits until the figures are such.
async fn until(node: &Node, what: &str, is_so: impl Fn(BlockFigures) -> bool) {
    let waiting = async {
        while !is_so(figures(node)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: {:?}", figures(node)));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_all_sizes_are_read_as_they_were_put_also_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    let sizes = [
        0,
        1,
        16 << 10,
        (16 << 10) + 1,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * BLOCK + 5,
    ];
    for (at, size) in sizes.iter().enumerate() {
        let bytes = bytes_of(at as u64, *size);
        put(&node, &format!("k{at}"), &bytes).await.unwrap();
    }
    assert_eq!(figures(&node).blocks, 1 + 1 + 1 + 2 + 4);
    for _ in 0..2 {
        for (at, size) in sizes.iter().enumerate() {
            let bytes = get(&node, &format!("k{at}")).await.unwrap();
            assert!(bytes == bytes_of(at as u64, *size), "{size} bytes");
        }
    }
    node.close().await;
    let node = open(settings(&folder));
    assert_eq!(keys(&node).await.len(), sizes.len());
    for (at, size) in sizes.iter().enumerate() {
        let bytes = get(&node, &format!("k{at}")).await.unwrap();
        assert!(bytes == bytes_of(at as u64, *size), "{size} bytes");
    }
    assert_eq!(figures(&node).missing, 0);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_have_four_mebibytes_unless_said() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(Settings {
        limits: Limits::default(),
        ..settings(&folder)
    });
    create(&node).await.unwrap();
    let bytes = bytes_of(1, (4 << 20) + 1);
    put(&node, "k", &bytes).await.unwrap();
    assert_eq!(figures(&node).blocks, 2);
    assert!(get(&node, "k").await.unwrap() == bytes);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_a_block_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    let bytes = bytes_of(1, BLOCK + 100);
    put(&node, "k", &bytes).await.unwrap();
    let found = find(&node, "k", BLOCK as u64 + 10).await.unwrap();
    assert_eq!(found.extent.at, BLOCK as u64);
    let [Piece::Block(block)] = &found.extent.pieces[..] else {
        panic!("{:?}", found.extent);
    };
    let read = node.read_block(block, 10..20).await.unwrap();
    assert_eq!(read, bytes.slice(BLOCK + 10..BLOCK + 20));
    let beyond = node.read_block(block, 0..101).await;
    assert!(matches!(beyond, Err(Unread::Trouble(_))), "{beyond:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_deleted_blocks_go_and_their_space_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    for round in 0..5 {
        put(&node, "a", &bytes_of(round, 2 * BLOCK)).await.unwrap();
        put(&node, "b", &bytes_of(100 + round, BLOCK / 2))
            .await
            .unwrap();
    }
    until(&node, "garbage stays", |it| it.blocks == 3).await;
    assert!(get(&node, "a").await.unwrap() == bytes_of(4, 2 * BLOCK));
    assert!(get(&node, "b").await.unwrap() == bytes_of(104, BLOCK / 2));
    delete(&node, "a").await.unwrap();
    delete(&node, "b").await.unwrap();
    assert_eq!(get(&node, "a").await.unwrap_err().code, Code::NoSuchKey);
    until(&node, "deleted blocks stay", |it| it.blocks == 0).await;
    // All but the segment that is still written to.
    until(&node, "no space comes back", |it| it.segments <= 1).await;
    let it = figures(&node);
    assert!(0 < it.reclaimed_bytes && it.alive_bytes == 0, "{it:?}");
    delete_bucket(&node).await.unwrap();
    node.close().await;
}

/// It shows COLLECT-2.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_under_way_has_its_bytes_for_the_wait_and_then_looks_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut long = settings(&folder);
    long.blocks.garbage_wait = Duration::from_secs(3600);
    let node = open(long);
    create(&node).await.unwrap();
    let old = bytes_of(1, BLOCK);
    put(&node, "k", &old).await.unwrap();
    let found = find(&node, "k", 0).await.unwrap();
    put(&node, "k", &bytes_of(2, BLOCK)).await.unwrap();
    until(&node, "garbage is not seen", |it| it.garbage_waiting == 1).await;
    assert!(read(&node, "k", found.clone()).await.unwrap() == old);
    node.close().await;
    // A new process begins the wait anew; here it is none.
    let node = open(settings(&folder));
    until(&node, "garbage stays", |it| it.blocks == 1).await;
    assert_eq!(read(&node, "k", found).await, Err(Unread::Gone));
    assert!(get(&node, "k").await.unwrap() == bytes_of(2, BLOCK));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_parts_becomes_an_object_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    let of = upload(&node, "big").await.unwrap();
    let sizes = [BLOCK + 1, 2 * BLOCK, BLOCK + 1, 100];
    let mut parts = Vec::new();
    let mut whole = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        let bytes = bytes_of(at as u64, *size);
        whole.extend_from_slice(&bytes);
        parts.push(part(&node, &of, at as u32 + 1, &bytes).await);
    }
    // A part that is put again, and one that is not listed.
    let again = bytes_of(50, BLOCK + 1);
    whole.splice(0..=BLOCK, again.iter().copied());
    parts[0] = part(&node, &of, 1, &again).await;
    part(&node, &of, 9, &bytes_of(51, BLOCK + 1)).await;
    let done = complete(&node, &of, parts.clone()).await.unwrap();
    assert_eq!(complete(&node, &of, parts).await.unwrap(), done);
    assert!(get(&node, "big").await.unwrap() == whole);
    until(&node, "parts stay", |it| it.blocks == 2 + 2 + 2).await;
    let of = upload(&node, "aborted").await.unwrap();
    part(&node, &of, 1, &bytes_of(52, BLOCK + 1)).await;
    abort(&node, &of).await;
    delete(&node, "big").await.unwrap();
    until(&node, "blocks stay", |it| it.blocks == 0).await;
    node.close().await;
}

async fn abort(node: &Node, of: &OneUpload) {
    let told = ask(node, Command::AbortUpload(of.clone())).await;
    assert_eq!(told, Ok(Reply::Done));
}

/// It shows BW-2.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_blocks_go_soon_and_committed_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    // A body that ends early.
    let account = account();
    let name = fader_services::catalog::Name::new(fader_services::Kind::Bucket, &account, B);
    let mut body = node.begin_body(name, None, None).await.unwrap();
    body.push(bytes_of(1, 2 * BLOCK + 1)).await.unwrap();
    drop(body);
    // A command that is refused.
    put(&node, "k", &bytes_of(2, BLOCK)).await.unwrap();
    let stored = store(&node, None, &bytes_of(3, BLOCK)).await.unwrap();
    let mut refused = put_of("k", stored.clone());
    refused.conditions = WriteConditions {
        if_none_match: true,
        ..WriteConditions::default()
    };
    let told = ask(&node, Command::PutObject(Box::new(refused.clone()))).await;
    assert_eq!(told.unwrap_err().code, Code::PreconditionFailed);
    node.give_up(&stored);
    until(&node, "blocks stay", |it| it.blocks == 1).await;
    // Once fenced it never commits.
    refused.conditions = WriteConditions::default();
    let told = ask(&node, Command::PutObject(Box::new(refused))).await;
    assert_eq!(told.unwrap_err().code, Code::AttemptFenced);
    // One that was committed is not harmed.
    let stored = store(&node, None, &bytes_of(4, BLOCK)).await.unwrap();
    let put = Command::PutObject(Box::new(put_of("other", stored.clone())));
    ask(&node, put).await.unwrap();
    node.give_up(&stored);
    let gone = store(&node, None, &bytes_of(5, BLOCK)).await.unwrap();
    node.give_up(&gone);
    until(&node, "blocks stay", |it| it.blocks == 2).await;
    assert!(get(&node, "other").await.unwrap() == bytes_of(4, BLOCK));
    assert!(get(&node, "k").await.unwrap() == bytes_of(2, BLOCK));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eventual_puts_of_blocks_are_placed_and_what_nothing_names_goes() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create_mixed(&node, B).await;
    let bytes = bytes_of(1, 2 * BLOCK + 1);
    put_eventually(&node, B, "k", &bytes, 1).await;
    let shown = tokio::time::timeout(PATIENCE, shows(&node, B, "k", &bytes));
    shown.await.unwrap();
    let lost = store(&node, None, &bytes).await.unwrap();
    assert_eq!(figures(&node).blocks, 6);
    node.give_up(&lost);
    until(&node, "what was given up goes", |it| it.blocks == 3).await;
    let refused = name_eventually(&node, B, "k", lost, 1).await;
    assert_eq!(refused.unwrap_err().code, Code::AttemptFenced);
    let other = bytes_of(2, BLOCK);
    for _ in 0..3 {
        put_eventually(&node, B, "k", &other, 1).await;
    }
    let shown = tokio::time::timeout(PATIENCE, shows(&node, B, "k", &other));
    shown.await.unwrap();
    until(&node, "what was replaced goes", |it| it.blocks == 1).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_end_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let mut short = settings(&folder);
    short.limits.blocks.lease_ms = 1;
    let node = open(short);
    create(&node).await.unwrap();
    // Its command never comes in time.
    let lost = store(&node, None, &bytes_of(1, BLOCK)).await.unwrap();
    until(&node, "a lost block stays", |it| it.blocks == 0).await;
    let told = ask(&node, Command::PutObject(Box::new(put_of("k", lost)))).await;
    assert_eq!(told.unwrap_err().code, Code::AttemptFenced);
    // Of one that comes in time the lease ends, and the block stays.
    let committed = async { while put(&node, "k", &bytes_of(2, BLOCK)).await.is_err() {} };
    tokio::time::timeout(PATIENCE, committed).await.unwrap();
    until(&node, "lost blocks stay", |it| it.blocks == 1).await;
    assert!(get(&node, "k").await.unwrap() == bytes_of(2, BLOCK));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_bucket_goes_with_its_garbage_and_its_name_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    put(&node, "k", &bytes_of(1, BLOCK)).await.unwrap();
    let refused = delete_bucket(&node).await.unwrap_err();
    assert_eq!(refused.code, Code::BucketNotEmpty);
    delete(&node, "k").await.unwrap();
    let of = upload(&node, "open").await.unwrap();
    part(&node, &of, 1, &bytes_of(2, BLOCK)).await;
    delete_bucket(&node).await.unwrap();
    create(&node).await.unwrap();
    assert!(keys(&node).await.is_empty());
    put(&node, "k", &bytes_of(3, BLOCK)).await.unwrap();
    until(&node, "garbage of a deleted bucket stays", |it| {
        it.blocks == 1
    })
    .await;
    assert!(get(&node, "k").await.unwrap() == bytes_of(3, BLOCK));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_objects_and_takes_deletions() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    put(&node, "k", &bytes_of(1, BLOCK)).await.unwrap();
    node.close().await;
    let mut full = settings(&folder);
    full.blocks.reserve_bytes = u64::MAX;
    let node = open(full);
    let NotPut::Body(trouble) = put(&node, "l", &bytes_of(2, BLOCK)).await.unwrap_err() else {
        panic!("the command was asked");
    };
    let error = <fader_services::s3::S3 as fader_services::service::Service>::word(trouble);
    assert_eq!(
        (error.code, error.code.status()),
        (Code::ServiceUnavailable, 503)
    );
    assert_eq!(error.reason, Some(Reason::BlocksFull));
    assert!(get(&node, "k").await.unwrap() == bytes_of(1, BLOCK));
    delete(&node, "k").await.unwrap();
    until(&node, "deleted blocks stay", |it| it.blocks == 0).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_share_one_budget_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut small = settings(&folder);
    // Two blocks, each with a quarter more.
    let most = 5 * BLOCK as u64 / 2;
    small.blocks.memory_bytes = most;
    let node = open(small);
    create(&node).await.unwrap();
    let mut all = Vec::new();
    for at in 0..6_u64 {
        let node = node.clone();
        all.push(tokio::spawn(async move {
            let bytes = bytes_of(at, 3 * BLOCK);
            put(&node, &format!("k{at}"), &bytes).await.unwrap();
            assert!(figures(&node).memory_bytes <= most);
        }));
    }
    for it in all {
        it.await.unwrap();
    }
    assert_eq!(figures(&node).memory_bytes, 0);
    for at in 0..6_u64 {
        assert!(get(&node, &format!("k{at}")).await.unwrap() == bytes_of(at, 3 * BLOCK));
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_no_member_or_chain_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    let stored = store(&node, None, &bytes_of(1, BLOCK)).await.unwrap();
    let Content::Blocks(blocks) = &stored.content else {
        panic!("{stored:?}");
    };
    let nowhere = Block {
        chain: ChainId(9),
        ..blocks[0]
    };
    let read = node.read_block(&nowhere, 0..1).await;
    let no_chain = Trouble::from(Reason::NoChain);
    assert_eq!(read, Err(Unread::Trouble(no_chain)));
    // A row of a block whose bytes never came.
    let row = NewRow {
        id: blocks[0].id ^ 1,
        size: 1,
        sum: 0,
    };
    let put = fader_services::blocks::Command::Put(fader_services::blocks::Put {
        owner: Owner {
            collection: CollectionId(1),
            attempt: stored.owner.attempt,
            upload: None,
        },
        chain: ChainId::SYSTEM,
        number: 1,
        blocks: vec![row],
    });
    let (refused, _) = node.call(Call::of_node(put)).await;
    assert_eq!(refused.unwrap_err().reason(), Some(Reason::BlocksMissing));
    node.close().await;
}

/// The only segment of blocks.
fn segment(settings: &Settings) -> std::path::PathBuf {
    let folder = std::fs::read_dir(settings.data.join("blocks")).unwrap();
    let files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    file.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_bytes_is_found_and_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    put(&node, "good", &bytes_of(1, BLOCK)).await.unwrap();
    put(&node, "bad", &bytes_of(2, BLOCK)).await.unwrap();
    node.close().await;
    let whole = Node::check(&settings(&folder)).unwrap();
    assert!(
        whole.damage.is_empty() && whole.lost.is_empty(),
        "{whole:?}"
    );
    // A byte in the middle of the second block.
    let file = segment(&settings(&folder));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[BLOCK + BLOCK / 2] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let found = Node::check(&settings(&folder)).unwrap();
    assert!(found.damage.is_empty(), "{found:?}");
    assert!(found.lost[0].contains("damaged at offset"), "{found:?}");
    // A start does not find it, only a scrub or a read.
    let mut scrubbing = settings(&folder);
    scrubbing.blocks.scrub_bytes_per_second = 0;
    let node = open(scrubbing.clone());
    assert_eq!(figures(&node).bad, 0);
    node.close().await;
    scrubbing.blocks.scrub_bytes_per_second = 1 << 30;
    let node = open(scrubbing);
    until(&node, "a scrub finds nothing", |it| it.bad == 1).await;
    let found = find(&node, "bad", 0).await.unwrap();
    let read = read(&node, "bad", found).await;
    assert!(matches!(read, Err(Unread::Trouble(_))), "{read:?}");
    assert!(get(&node, "good").await.unwrap() == bytes_of(1, BLOCK));
    // Put again it is whole, and what was damaged goes.
    put(&node, "bad", &bytes_of(3, BLOCK)).await.unwrap();
    assert!(get(&node, "bad").await.unwrap() == bytes_of(3, BLOCK));
    until(&node, "damage stays", |it| it.bad == 0 && it.blocks == 2).await;
    node.close().await;
}

/// It shows TE-2.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_missing_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(settings(&folder));
    create(&node).await.unwrap();
    put(&node, "k", &bytes_of(1, BLOCK)).await.unwrap();
    put(&node, "gone", &bytes_of(2, BLOCK)).await.unwrap();
    delete(&node, "gone").await.unwrap();
    until(&node, "deleted blocks stay", |it| it.blocks == 1).await;
    node.close().await;
    // What was deleted is not missed, though the log tells of it.
    assert!(Node::check(&settings(&folder)).unwrap().lost.is_empty());
    std::fs::remove_file(segment(&settings(&folder))).unwrap();
    let found = Node::check(&settings(&folder)).unwrap();
    assert_eq!(found.lost.len(), 1, "{found:?}");
    let node = open(settings(&folder));
    until(&node, "nothing is missing", |it| it.missing == 1).await;
    let found = find(&node, "k", 0).await.unwrap();
    let read = read(&node, "k", found).await;
    assert!(matches!(read, Err(Unread::Trouble(_))), "{read:?}");
    node.close().await;
}
