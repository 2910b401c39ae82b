//! Eventual puts: which are taken, and what becomes of them at the head.

use fader_chain::{Accepted, ApplyContext, ChainId, Change, EntryId, Register, Settled, Stamp};

use super::fixture::*;
use crate::level::{ConsistencyOptions, Level};
use crate::s3::command::*;
use crate::s3::conditions::WriteConditions;
use crate::s3::reply::{Fenced, Piece};
use crate::s3::rows::{Attempt, Block, Content};
use crate::s3::settings::{Setting, Versioning};
use crate::s3::{Code, Error, Request, S3, tentative};
use crate::service::{Context, Service as _};
use crate::{Mode, View as _, blocks as rows};

const EVENTUAL: Level = Level::Eventual {
    r: 1,
    w: 1,
    sloppy: false,
};

fn mixed() -> World {
    let mut world = World::new();
    world.mode = Mode::Mixed;
    let collection = world.collection(B).unwrap();
    world.apply(&[Change::set_mode(collection.0, Mode::Mixed, false)]);
    world
}

fn request(world: &World, put: PutObject) -> Request {
    Request {
        seed: 9,
        caller: world.caller.clone(),
        command: Command::PutObject(Box::new(put)),
    }
}

/// Takes a put at a member.
fn accept(world: &mut World, key: &str, body: &str) -> Result<Accepted, Error> {
    let attempt = world.attempt();
    take(world, key, attempt, inline(body))
}

fn take(
    world: &mut World,
    key: &str,
    attempt: Attempt,
    content: Content,
) -> Result<Accepted, Error> {
    let request = request(world, put_of(key, attempt, content));
    let context = Context {
        collection: world.collection(B),
        now_ms: world.now_ms,
        mode: world.mode,
        chain: ChainId(1),
        ..Context::new(&world.account, &world.limits)
    };
    let accepted = tentative::accept(&world.rows, &context, &request)?;
    let mut writes = accepted.writes;
    assert_eq!(writes.len(), 1);
    Ok(writes.remove(0))
}

/// The stamp of an operation that was taken where `version` was the newest entry.
fn stamp(version: u64, counter: u32) -> Stamp {
    Stamp {
        base: EntryId::new(1, version),
        clock: 7,
        node: 1,
        counter,
    }
}

/// Settles it as the chain does: what the register dominates is superseded. Whether it is placed.
fn settle(world: &mut World, accepted: &Accepted, stamp: Stamp) -> bool {
    let found = world.rows.get(&accepted.key).unwrap();
    let register = found.map_or_else(Register::default, |row| Register::decode(row).unwrap());
    let survivors = register.survivors(&accepted.ops, stamp);
    if survivors.is_empty() {
        return false;
    }
    let settled = tentative::settle(&world.rows, &world.limits, &accepted.key, survivors);
    let Settled::Apply(changes) = settled.unwrap() else {
        return false;
    };
    world.index += 1;
    let under = ApplyContext {
        stamp,
        ..ApplyContext::strong(world.entry())
    };
    world.rows.all.apply(&changes, &under).unwrap();
    true
}

#[test]
fn an_eventual_put_is_shown_when_it_is_settled() {
    let mut world = mixed();
    world.put("k", "strong");
    let at = world.entry().index;
    let taken = accept(&mut world, "k", "later").unwrap();
    assert_eq!(world.body("k", None), Ok("strong".to_owned()));
    assert!(settle(&mut world, &taken, stamp(at, 1)));
    assert_eq!(world.body("k", None), Ok("later".to_owned()));
    // It is settled once.
    assert!(!settle(&mut world, &taken, stamp(at, 1)));
    let next = world.put("k", "strong again");
    assert!(!settle(&mut world, &taken, stamp(at, 1)));
    assert_eq!(next.version, None);
    assert_eq!(world.body("k", None), Ok("strong again".to_owned()));
}

#[test]
fn of_eventual_puts_the_one_with_the_greatest_stamp_stays() {
    let mut world = mixed();
    let at = world.entry().index;
    let one = accept(&mut world, "k", "one").unwrap();
    let two = accept(&mut world, "k", "two").unwrap();
    assert!(settle(&mut world, &two, stamp(at, 2)));
    assert!(!settle(&mut world, &one, stamp(at, 1)));
    assert_eq!(world.body("k", None), Ok("two".to_owned()));
}

#[test]
fn a_strong_put_or_deletion_supersedes_what_is_older() {
    let mut world = mixed();
    let at = world.entry().index;
    let old = accept(&mut world, "k", "old").unwrap();
    world.put("k", "new");
    assert!(!settle(&mut world, &old, stamp(at, 1)));
    assert_eq!(world.body("k", None), Ok("new".to_owned()));
    let at = world.entry().index;
    let old = accept(&mut world, "k", "old").unwrap();
    let delete = Command::DeleteObject(DeleteObject {
        bucket: B.to_owned(),
        object: Deletion {
            key: "k".to_owned(),
            ..Deletion::default()
        },
    });
    world.run(delete).unwrap();
    assert!(!settle(&mut world, &old, stamp(at, 1)));
    assert_eq!(world.body("k", None), Err(Code::NoSuchKey));
}

/// SE-2.
#[test]
fn blocks_that_a_promotion_replaces_become_garbage() {
    let mut world = mixed();
    let at = world.entry().index;
    let taken = accept(&mut world, "k", "small").unwrap();
    let block = Block {
        id: 5,
        chain: fader_chain::ChainId::SYSTEM,
        size: 20_000,
    };
    world
        .put_with("other", Content::Blocks(vec![block]), |_| {})
        .unwrap();
    let of_other = accept(&mut world, "other", "small").unwrap();
    let now = world.entry().index;
    assert!(settle(&mut world, &of_other, stamp(now, 1)));
    let garbage = crate::blocks::garbage(&world.rows, None, 9).unwrap();
    assert_eq!(garbage.len(), 1);
    assert!(settle(&mut world, &taken, stamp(at, 1)));
}

/// It shows SE-1.
#[test]
fn only_plain_puts_to_mixed_buckets_are_taken() {
    let mut world = World::new();
    let refused = Err(Code::InvalidArgument);
    let code = |it: Result<Accepted, Error>| it.map(drop).map_err(|error| error.code);
    assert_eq!(code(accept(&mut world, "k", "x")), refused);
    world.mode = Mode::Mixed;
    assert_eq!(code(accept(&mut world, "k", "x")), Ok(()));
    let consistency = ConsistencyOptions {
        level: EVENTUAL,
        ..ConsistencyOptions::default()
    };
    let permits = |world: &mut World, mode, change: fn(&mut PutObject)| {
        let attempt = world.attempt();
        let mut put = put_of("k", attempt, inline("x"));
        change(&mut put);
        let request = request(world, put);
        let permitted = S3::effective_level(Some(mode), None, &consistency, &request);
        permitted.map(|it| it.0).map_err(|error| error.code)
    };
    assert_eq!(permits(&mut world, Mode::Mixed, |_| {}), Ok(EVENTUAL));
    let strong = permits(&mut world, Mode::Strong, |_| {});
    assert_eq!(strong, Err(Code::InvalidArgument));
    let conditional = permits(&mut world, Mode::Mixed, |put| {
        put.conditions = WriteConditions {
            if_match: None,
            if_none_match: true,
        };
    });
    assert_eq!(conditional, Err(Code::InvalidArgument));
    let large = permits(&mut world, Mode::Mixed, |put| {
        put.content = Content::Blocks(Vec::new());
    });
    assert_eq!(large, Ok(EVENTUAL));
}

/// SE-3.
#[test]
fn a_bucket_keeps_versions_or_is_mixed() {
    let mut world = mixed();
    let versions = Setting::Versioning(Versioning::Enabled);
    let refused = world.set(versions).expect_err("it is refused");
    assert_eq!(refused.code, Code::InvalidBucketState);
    let collection = world.collection(B).unwrap();
    let check = |world: &World, mode| tentative::check_mode(&world.rows, collection, mode);
    assert!(check(&world, Mode::Mixed).is_ok());
    assert!(check(&world, Mode::Eventual).is_err());
    world.mode = Mode::Strong;
    world.versioning(Versioning::Suspended);
    assert!(check(&world, Mode::Mixed).is_err());
    assert!(check(&world, Mode::Strong).is_ok());
}

/// An attempt whose blocks have their rows.
struct Stored {
    attempt: Attempt,
    owner: Owner,
    content: Content,
}

impl Stored {
    fn new(world: &mut World, ids: &[u128]) -> Stored {
        let attempt = world.attempt();
        let owner = Owner {
            collection: world.collection(B).unwrap(),
            attempt,
            upload: None,
        };
        let new = ids.iter().map(|id| rows::NewRow {
            id: *id,
            size: 1000,
            sum: 0,
        });
        let put = rows::Command::Put(rows::Put {
            owner,
            chain: ChainId(1),
            number: 1,
            blocks: new.collect(),
        });
        let limits = rows::Limits::default();
        let changes = rows::decide(&world.rows, &limits, world.now_ms, &put).unwrap();
        world.apply(&changes);
        Stored {
            attempt,
            owner,
            content: blocks(ids),
        }
    }

    fn take(&self, world: &mut World) -> Result<Accepted, Error> {
        take(world, "k", self.attempt, self.content.clone())
    }

    fn end(&self, world: &mut World, block: u128) -> crate::s3::Reply {
        let owner = self.owner;
        let end = Command::EndAttempt(Fence { owner, block });
        world.run(end).unwrap()
    }

    /// Whether a member whose log is this one may take it.
    fn is_open(&self, world: &World) -> bool {
        rows::check_attempt(&world.rows, self.owner.collection, &self.attempt).is_ok()
    }
}

fn row(world: &World, block: u128) -> Option<rows::Row> {
    rows::row(&world.rows, block).unwrap()
}

/// The blocks of the object at `k`.
fn named(world: &mut World) -> Vec<u128> {
    let found = world.get_with("k", None, Extent::From(0)).unwrap();
    let pieces = found.extent.pieces.iter().map(|piece| match piece {
        Piece::Block(block) => block.id,
        Piece::Inline(bytes) => panic!("{bytes:?}"),
    });
    pieces.collect()
}

/// Members of an older cluster hold no such puts.
#[test]
fn a_fence_of_an_older_cluster_closes_nothing() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1]);
    let (owner, block) = (stored.owner, 1);
    let told = world.run(Command::Fence(Fence { owner, block })).unwrap();
    assert_eq!(told, crate::s3::Reply::Fenced(Fenced::Fenced));
    assert!(row(&world, 1).is_some_and(|row| !row.is_closed()));
    assert!(!stored.is_open(&world));
}

#[test]
fn an_eventual_put_of_blocks_is_placed_when_it_is_settled() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1, 2]);
    let at = world.entry().index;
    let taken = stored.take(&mut world).unwrap();
    assert_eq!(world.body("k", None), Err(Code::NoSuchKey));
    assert!(settle(&mut world, &taken, stamp(at, 1)));
    assert_eq!(named(&mut world), [1, 2]);
    assert_eq!(world.fence(stored.owner, 2), Fenced::Kept);
    // It is placed once, also where its name is forgotten.
    world.put("k", "new");
    let later = world.entry().index;
    assert!(!settle(&mut world, &taken, stamp(later, 1)));
    assert_eq!(world.body("k", None), Ok("new".to_owned()));
    assert_eq!(world.fence(stored.owner, 2), Fenced::NoAnswer);
    assert_eq!(world.garbage(stored.owner.collection).len(), 1);
}

/// It shows SE-4.
#[test]
fn of_a_closed_attempt_no_put_is_taken() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1, 2]);
    assert!(stored.is_open(&world));
    assert_eq!(world.fence(stored.owner, 1), Fenced::NoAnswer);
    assert!(!stored.is_open(&world));
    let strong = put_of("k", stored.attempt, stored.content.clone());
    let strong = Command::PutObject(Box::new(strong));
    assert_eq!(world.code(strong), Code::AttemptFenced);
    // Its lease is over at once, and that of the other block is not.
    let found = rows::due(&world.rows, None, world.now_ms, 9).unwrap();
    assert_eq!(found, [(world.now_ms, 1)]);
    let closed = [1, 2].map(|block| row(&world, block).unwrap().is_closed());
    assert_eq!(closed, [true, false]);
    // Behind the note it stays closed.
    let collection = stored.owner.collection;
    let note = world.entry();
    let command = MoveNote { collection, note };
    world.run(Command::MoveNote(command)).unwrap();
    world.upkeep(7);
    assert!(!stored.is_open(&world));
    let new = Stored::new(&mut world, &[3]);
    assert!(new.is_open(&world));
}

/// It shows SE-5.
#[test]
fn a_closed_attempt_ends_when_what_was_held_is_settled() {
    let mut world = mixed();
    let [lost, held] = [[1], [2]].map(|ids| Stored::new(&mut world, &ids));
    let at = world.entry().index;
    let taken = held.take(&mut world).unwrap();
    for (stored, block) in [(&lost, 1), (&held, 2)] {
        // It is not closed yet.
        assert_eq!(stored.end(&mut world, block), fenced(Fenced::NoAnswer));
        assert_eq!(world.fence(stored.owner, block), Fenced::NoAnswer);
        assert_eq!(world.fence(stored.owner, block), Fenced::NoAnswer);
        assert!(row(&world, block).unwrap().is_closed());
    }
    assert!(settle(&mut world, &taken, stamp(at, 1)));
    assert_eq!(held.end(&mut world, 2), fenced(Fenced::Kept));
    assert_eq!(lost.end(&mut world, 1), crate::s3::Reply::Done);
    assert_eq!(row(&world, 1), None);
    assert_eq!(lost.end(&mut world, 1), crate::s3::Reply::Done);
    let number = row(&world, 2).unwrap().number;
    let ends = rows::Command::EndLeases(vec![(2, number)]);
    let limits = rows::Limits::default();
    let changes = rows::decide(&world.rows, &limits, world.now_ms, &ends).unwrap();
    world.apply(&changes);
    assert_eq!(row(&world, 2).unwrap().lease, rows::Lease::Ended);
    assert_eq!(rows::due(&world.rows, None, u64::MAX, 9).unwrap(), []);
    assert_eq!(named(&mut world), [2]);
}

fn fenced(fate: Fenced) -> crate::s3::Reply {
    crate::s3::Reply::Fenced(fate)
}

/// SE-6.
#[test]
fn a_promotion_of_blocks_whose_rows_are_gone_comes_to_nothing() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1, 2]);
    world.put("k", "old");
    let at = world.entry().index;
    let taken = stored.take(&mut world).unwrap();
    world.fence(stored.owner, 2);
    stored.end(&mut world, 2);
    assert!(!settle(&mut world, &taken, stamp(at, 1)));
    assert_eq!(world.body("k", None), Ok("old".to_owned()));
}

#[test]
fn a_put_that_is_superseded_leaves_its_blocks_to_their_leases() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1]);
    let at = world.entry().index;
    let taken = stored.take(&mut world).unwrap();
    world.put("k", "new");
    assert!(!settle(&mut world, &taken, stamp(at, 1)));
    assert!(world.garbage(stored.owner.collection).is_empty());
    world.fence(stored.owner, 1);
    assert_eq!(stored.end(&mut world, 1), crate::s3::Reply::Done);
    assert_eq!(row(&world, 1), None);
}

#[test]
fn attempts_that_no_member_can_hold_are_fenced_at_once() {
    let mut world = mixed();
    let stored = Stored::new(&mut world, &[1]);
    let part = Owner {
        upload: Some(7),
        ..stored.owner
    };
    assert_eq!(world.fence(part, 1), Fenced::Fenced);
    let closed = Change::set_mode(stored.owner.collection.0, Mode::Strong, false);
    world.apply(&[closed]);
    let stored = Stored::new(&mut world, &[2]);
    assert_eq!(world.fence(stored.owner, 2), Fenced::Fenced);
    world.mode = Mode::Strong;
    let made_again = Stored::new(&mut world, &[3]);
    world
        .run(Command::DeleteBucket(super::fixture::named(B)))
        .unwrap();
    world.create(B).unwrap();
    world.mode = Mode::Mixed;
    let refused = made_again.take(&mut world).map_err(|error| error.code);
    assert_eq!(refused, Err(Code::NoSuchBucket));
    assert_eq!(world.fence(made_again.owner, 3), Fenced::Fenced);
}
