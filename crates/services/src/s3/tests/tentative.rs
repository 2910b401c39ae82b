//! Eventual puts: which are taken, and what becomes of them at the head.

use fader_chain::{Accepted, ApplyContext, EntryId, Register, Settled, Stamp};

use super::fixture::*;
use crate::level::{ConsistencyOptions, Level};
use crate::s3::command::*;
use crate::s3::conditions::WriteConditions;
use crate::s3::rows::{Block, Content};
use crate::s3::settings::{Setting, Versioning};
use crate::s3::{Code, Error, Request, S3, tentative};
use crate::service::{Context, Service as _};
use crate::{Mode, View as _};

const EVENTUAL: Level = Level::Eventual {
    r: 1,
    w: 1,
    sloppy: false,
};

fn mixed() -> World {
    let mut world = World::new();
    world.mode = Mode::Mixed;
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
    let request = request(world, put_of(key, attempt, inline(body)));
    let context = Context {
        collection: world.collection(B),
        now_ms: world.now_ms,
        mode: world.mode,
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

/// Settles it as the chain does: what the register dominates is superseded.
fn settle(world: &mut World, accepted: &Accepted, stamp: Stamp) -> bool {
    let found = world.rows.get(&accepted.key).unwrap();
    let register = found.map_or_else(Register::default, |row| Register::decode(row).unwrap());
    let survivors = register.survivors(&accepted.ops, stamp);
    if survivors.is_empty() {
        return false;
    }
    let settled = tentative::settle(&world.rows, &world.limits, &accepted.key, survivors);
    let Settled::Apply(changes) = settled.unwrap() else {
        panic!("it is refused");
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
    assert_eq!(large, Ok(Level::Strong));
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
