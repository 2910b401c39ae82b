//! What tests ask about buckets: objects are put, read whole and compared, deleted, uploaded in
//! parts.

#![allow(dead_code, reason = "each test asks for a part of it")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_node::{BlockOptions, Call, Node, Settings, Stored, Unread};
use fader_services::catalog::{AccountId, Name};
use fader_services::level::{ConsistencyOptions, Level};
use fader_services::request::{Limits, own};
use fader_services::s3::command::{
    Command, CompleteUpload, CreateBucket, CreateUpload, DeleteObject, Deletion, Extent, GetObject,
    List, ListedPart, Named, OneUpload, PutObject, PutPart, Request,
};
use fader_services::s3::conditions::{ReadConditions, WriteConditions};
use fader_services::s3::reply::{Entry, Found, Page, Piece, Put};
use fader_services::s3::rows::Metadata;
use fader_services::s3::{Action, Error, Reply, S3};
use fader_services::service::Trouble;
use fader_services::{Kind, Mode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often a put is tried again.
const LOOK: Duration = Duration::from_millis(20);
pub(crate) const B: &str = "photos";
/// Bytes of a block in most tests.
pub(crate) const BLOCK: usize = 64 << 10;

pub(crate) fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

/// Small blocks, and garbage that goes at once.
pub(crate) fn settings(folder: &tempfile::TempDir) -> Settings {
    let mut limits = Limits::default();
    limits.s3.block_bytes = BLOCK as u32;
    limits.s3.part_bytes_min = 0;
    Settings {
        limits,
        blocks: BlockOptions {
            reserve_bytes: 0,
            segment_bytes: 4 * BLOCK as u32,
            garbage_wait: Duration::ZERO,
            look: Duration::from_millis(10),
            ..BlockOptions::default()
        },
        ..Settings::new(folder.path().join("data"))
    }
}

/// Bytes that no others are like.
pub(crate) fn bytes_of(seed: u64, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    ChaCha8Rng::seed_from_u64(seed).fill(&mut bytes[..]);
    bytes.into()
}

pub(crate) async fn ask(node: &Node, command: Command) -> Result<Reply, Error> {
    ask_at(node, command, ConsistencyOptions::default()).await
}

async fn ask_at(
    node: &Node,
    command: Command,
    consistency: ConsistencyOptions,
) -> Result<Reply, Error> {
    let request = Request::of(&account(), rand::random(), command);
    let call = Call::new(&account(), request, consistency);
    own::<S3>(node.call(call).await.0)
}

pub(crate) async fn create(node: &Node) -> Result<Reply, Error> {
    create_one(node, B).await
}

pub(crate) async fn create_one(node: &Node, bucket: &str) -> Result<Reply, Error> {
    ask(
        node,
        Command::CreateBucket(CreateBucket {
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            ..CreateBucket::default()
        }),
    )
    .await
}

/// Makes a bucket that takes eventual puts.
pub(crate) async fn create_mixed(node: &Node, bucket: &str) {
    let create = CreateBucket {
        bucket: bucket.to_owned(),
        region: "us-east-1".to_owned(),
        mode: Some(Mode::Mixed.byte()),
        ..CreateBucket::default()
    };
    ask(node, Command::CreateBucket(create)).await.unwrap();
}

/// Puts eventually what is stored for a bucket, with W.
pub(crate) async fn name_eventually(
    node: &Node,
    bucket: &str,
    key: &str,
    stored: Stored,
    w: u8,
) -> Result<Reply, Error> {
    let put = PutObject {
        bucket: bucket.to_owned(),
        ..put_of(key, stored)
    };
    let eventual = ConsistencyOptions {
        level: Level::Eventual {
            r: 1,
            w,
            sloppy: false,
        },
        ..ConsistencyOptions::default()
    };
    ask_at(node, Command::PutObject(Box::new(put)), eventual).await
}

/// The same of bytes, again while members come and go.
pub(crate) async fn put_eventually(node: &Node, bucket: &str, key: &str, bytes: &Bytes, w: u8) {
    loop {
        if let Ok(stored) = store_in(node, bucket, None, bytes).await {
            match name_eventually(node, bucket, key, stored, w).await {
                Ok(_) => return,
                Err(error) => assert!(error.reason.is_some(), "{key}: {error:?}"),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until a strong read shows these bytes.
pub(crate) async fn shows(node: &Node, bucket: &str, key: &str, bytes: &Bytes) {
    while get_in(node, bucket, key).await.ok().as_deref() != Some(&bytes[..]) {
        tokio::time::sleep(LOOK).await;
    }
}

pub(crate) async fn delete_bucket(node: &Node) -> Result<Reply, Error> {
    delete_one(node, B).await
}

pub(crate) async fn delete_one(node: &Node, bucket: &str) -> Result<Reply, Error> {
    let bucket = bucket.to_owned();
    ask(node, Command::DeleteBucket(Named { bucket })).await
}

/// Stores bytes that come in pieces.
pub(crate) async fn store(
    node: &Node,
    upload: Option<u128>,
    bytes: &Bytes,
) -> Result<Stored, Trouble> {
    store_in(node, B, upload, bytes).await
}

pub(crate) async fn store_in(
    node: &Node,
    bucket: &str,
    upload: Option<u128>,
    bytes: &Bytes,
) -> Result<Stored, Trouble> {
    let account = account();
    let name = Name::new(Kind::Bucket, &account, bucket);
    let size = bytes.len() as u64;
    let mut body = node.begin_body(name, upload, Some(size)).await?;
    for piece in bytes.chunks(30_000) {
        body.push(bytes.slice_ref(piece)).await?;
    }
    body.finish().await
}

pub(crate) fn put_of(key: &str, stored: Stored) -> PutObject {
    PutObject {
        bucket: B.to_owned(),
        key: key.to_owned(),
        attempt: stored.owner.attempt,
        content: stored.content,
        etag: "0123456789abcdef0123456789abcdef".to_owned(),
        checksum: None,
        metadata: Metadata::default(),
        acl: None,
        conditions: WriteConditions::default(),
    }
}

/// Why an object was not put.
#[derive(Debug)]
pub(crate) enum NotPut {
    Body(Trouble),
    Command(Error),
}

pub(crate) async fn put(node: &Node, key: &str, bytes: &Bytes) -> Result<Put, NotPut> {
    put_in(node, B, key, bytes).await
}

pub(crate) async fn put_in(
    node: &Node,
    bucket: &str,
    key: &str,
    bytes: &Bytes,
) -> Result<Put, NotPut> {
    let stored = store_in(node, bucket, None, bytes).await;
    let put = PutObject {
        bucket: bucket.to_owned(),
        ..put_of(key, stored.map_err(NotPut::Body)?)
    };
    let put = Command::PutObject(Box::new(put));
    match ask(node, put).await {
        Ok(Reply::Put(put)) => Ok(put),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(NotPut::Command(error)),
    }
}

/// Puts an object again while members come and go, for at most so long.
pub(crate) async fn put_within(
    patience: Duration,
    node: &Node,
    bucket: &str,
    key: &str,
    bytes: &Bytes,
) {
    let end = Instant::now() + patience;
    while let Err(error) = put_in(node, bucket, key, bytes).await {
        let is_later = match &error {
            NotPut::Body(Trouble::Unavailable(_)) => true,
            NotPut::Command(error) => error.reason.is_some(),
            NotPut::Body(_) => false,
        };
        assert!(is_later && Instant::now() < end, "{key}: {error:?}");
        tokio::time::sleep(LOOK).await;
    }
}

pub(crate) async fn find(node: &Node, key: &str, from: u64) -> Result<Found, Error> {
    find_in(node, B, key, from).await
}

async fn find_in(node: &Node, bucket: &str, key: &str, from: u64) -> Result<Found, Error> {
    let get = GetObject {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        version: None,
        conditions: ReadConditions::default(),
        extent: Extent::From(from),
        action: Action::GetObject,
    };
    match ask(node, Command::GetObject(get)).await? {
        Reply::Object(found) => Ok(*found),
        other => panic!("{other:?}"),
    }
}

/// The bytes of what was found.
pub(crate) async fn read(node: &Node, key: &str, found: Found) -> Result<Vec<u8>, Unread> {
    read_in(node, B, key, found).await
}

async fn read_in(
    node: &Node,
    bucket: &str,
    key: &str,
    mut found: Found,
) -> Result<Vec<u8>, Unread> {
    let mut whole = Vec::new();
    loop {
        for piece in &found.extent.pieces {
            match piece {
                Piece::Inline(bytes) => whole.extend_from_slice(bytes),
                Piece::Block(block) => {
                    // As many of them come as are in memory.
                    let mut at = 0;
                    while at < block.size {
                        let bytes = node.read_block(block, at..block.size).await?;
                        at += bytes.len() as u32;
                        whole.extend_from_slice(&bytes);
                    }
                }
            }
        }
        let Some(next) = found.extent.next else {
            return Ok(whole);
        };
        let more = find_in(node, bucket, key, next).await;
        found = more.expect("it was there");
    }
}

/// All bytes of an object.
pub(crate) async fn get(node: &Node, key: &str) -> Result<Vec<u8>, Error> {
    get_in(node, B, key).await
}

pub(crate) async fn get_in(node: &Node, bucket: &str, key: &str) -> Result<Vec<u8>, Error> {
    let found = find_in(node, bucket, key, 0).await?;
    let bytes = read_in(node, bucket, key, found).await;
    Ok(bytes.expect("its bytes are there"))
}

pub(crate) async fn delete(node: &Node, key: &str) -> Result<Reply, Error> {
    delete_in(node, B, key).await
}

pub(crate) async fn delete_in(node: &Node, bucket: &str, key: &str) -> Result<Reply, Error> {
    let object = Deletion {
        key: key.to_owned(),
        ..Deletion::default()
    };
    let bucket = bucket.to_owned();
    ask(node, Command::DeleteObject(DeleteObject { bucket, object })).await
}

pub(crate) async fn list(node: &Node) -> Page {
    list_in(node, B).await
}

async fn list_in(node: &Node, bucket: &str) -> Page {
    let list = List {
        bucket: bucket.to_owned(),
        ..List::default()
    };
    match ask(node, Command::ListObjects(list)).await {
        Ok(Reply::Page(page)) => page,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn keys(node: &Node) -> Vec<String> {
    keys_in(node, B).await
}

pub(crate) async fn keys_in(node: &Node, bucket: &str) -> Vec<String> {
    let page = list_in(node, bucket).await;
    page.entries.iter().map(|it| it.name().to_owned()).collect()
}

/// The open uploads.
pub(crate) async fn uploads(node: &Node) -> Vec<OneUpload> {
    let list = List {
        bucket: B.to_owned(),
        ..List::default()
    };
    let Ok(Reply::Page(page)) = ask(node, Command::ListUploads(list)).await else {
        panic!("a list of uploads");
    };
    let entries = page.entries.into_iter().filter_map(|entry| match entry {
        Entry::Upload { key, id, .. } => Some(OneUpload {
            bucket: B.to_owned(),
            key,
            upload: id,
        }),
        _ => None,
    });
    entries.collect()
}

pub(crate) async fn upload(node: &Node, key: &str) -> Result<OneUpload, Error> {
    upload_in(node, B, key).await
}

pub(crate) async fn upload_in(node: &Node, bucket: &str, key: &str) -> Result<OneUpload, Error> {
    let create = CreateUpload {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        metadata: Metadata::default(),
        acl: None,
        algorithm: None,
    };
    match ask(node, Command::CreateUpload(create)).await? {
        Reply::Upload(upload) => Ok(OneUpload {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            upload,
        }),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn part(node: &Node, of: &OneUpload, number: u32, bytes: &Bytes) -> ListedPart {
    let stored = store_in(node, &of.bucket, Some(of.upload), bytes).await;
    let stored = stored.unwrap();
    let etag = format!("{number:032x}");
    let put = PutPart {
        of: of.clone(),
        number,
        attempt: stored.owner.attempt,
        content: stored.content,
        etag: etag.clone(),
        checksum: None,
    };
    let told = ask(node, Command::PutPart(put)).await;
    assert_eq!(told, Ok(Reply::Part(etag.clone())));
    ListedPart {
        number,
        etag,
        checksum: None,
    }
}

pub(crate) async fn complete(
    node: &Node,
    of: &OneUpload,
    parts: Vec<ListedPart>,
) -> Result<Reply, Error> {
    ask(
        node,
        Command::CompleteUpload(CompleteUpload {
            of: of.clone(),
            parts,
            checksum: None,
            size: None,
            conditions: WriteConditions::default(),
        }),
    )
    .await
}
