//! Fences, the note and garbage.

use super::fixture::*;
use crate::s3::command::*;
use crate::s3::reply::Fenced;
use crate::s3::rows::{Attempt, GarbageId};
use crate::s3::{Code, S3};
use crate::service::{Meaning, Service as _};

fn owner(world: &World, attempt: Attempt, upload: Option<u128>) -> Owner {
    Owner {
        collection: world.collection(B).unwrap(),
        attempt,
        upload,
    }
}

fn put(world: &mut World, attempt: Attempt, block: u128) -> Result<(), Code> {
    let put = put_of("key", attempt, blocks(&[block]));
    let told = world.run(Command::PutObject(Box::new(put)));
    told.map(drop).map_err(|error| error.code)
}

#[test]
fn a_fenced_attempt_never_commits_and_another_does() {
    let mut world = World::new();
    let (late, other) = (world.attempt(), world.attempt());
    let lost = owner(&world, late, None);
    assert_eq!(world.fence(lost, 1), Fenced::Fenced);
    assert_eq!(world.fence(lost, 1), Fenced::Fenced);
    let refused = put(&mut world, late, 1);
    assert_eq!(refused, Err(Code::AttemptFenced));
    assert_eq!(Code::AttemptFenced.status(), 503);
    put(&mut world, other, 2).unwrap();
    let kept = owner(&world, other, None);
    assert_eq!(world.fence(kept, 2), Fenced::Kept);
    // A block of the same attempt that the version does not name.
    assert_eq!(world.fence(kept, 3), Fenced::Fenced);
}

#[test]
fn a_fence_has_no_answer_for_garbage_until_it_is_gone() {
    let mut world = World::versioned();
    let attempt = world.attempt();
    put(&mut world, attempt, 1).unwrap();
    let owned = owner(&world, attempt, None);
    world.put("key", "new");
    assert_eq!(world.fence(owned, 1), Fenced::Kept);
    let page = world.page(Command::ListVersions(list_of("", "")));
    let crate::s3::reply::Entry::Version { version, .. } = &page.entries[1] else {
        panic!("no version");
    };
    world.delete("key", Some(version.id)).unwrap();
    assert_eq!(world.fence(owned, 1), Fenced::NoAnswer);
    let drop = DropGarbage {
        collection: owned.collection,
        bucket: attempt.bucket,
        garbage: GarbageId::Attempt(attempt.id),
        parts: Vec::new(),
    };
    world.run(Command::DropGarbage(drop)).unwrap();
    assert_eq!(world.fence(owned, 1), Fenced::Fenced);
    assert!(world.garbage(owned.collection).is_empty());
}

#[test]
fn a_dead_attempt_of_a_part_does_not_fence_its_upload() {
    let mut world = World::new();
    let upload = world.upload("key");
    let part = world.part(&upload, 1, blocks(&[1])).unwrap();
    let dead = world.attempt();
    let lost = owner(&world, dead, Some(upload.upload));
    assert_eq!(world.fence(lost, 2), Fenced::Fenced);
    let late = part_of(&upload, 2, dead, blocks(&[2]));
    assert_eq!(world.code(Command::PutPart(late)), Code::AttemptFenced);
    world.part(&upload, 2, blocks(&[3])).unwrap();
    world.complete(&upload, &[part]).unwrap();
}

#[test]
fn behind_the_note_fences_end_and_commits_are_refused() {
    let mut world = World::new();
    let attempts: Vec<Attempt> = (0..50).map(|_| world.attempt()).collect();
    for (attempt, block) in attempts.iter().zip(1..) {
        let lost = owner(&world, *attempt, None);
        assert_eq!(world.fence(lost, block), Fenced::Fenced);
    }
    let rows = |world: &World| world.rows.all.iter().count();
    let before = rows(&world);
    let note = attempts[39].begun;
    let collection = world.collection(B).unwrap();
    let command = Command::MoveNote(MoveNote { collection, note });
    world.run(command.clone()).unwrap();
    world.upkeep(7);
    // Beside the note and the row of upkeep.
    assert_eq!(rows(&world), before - 40 + 2);
    for attempt in [attempts[0], attempts[39], attempts[45]] {
        let refused = put(&mut world, attempt, 1);
        assert_eq!(refused, Err(Code::AttemptFenced));
    }
    let new = world.attempt();
    put(&mut world, new, 60).unwrap();
    let back = MoveNote {
        collection,
        note: attempts[0].begun,
    };
    world.run(Command::MoveNote(back)).unwrap();
    let refused = put(&mut world, attempts[20], 1);
    assert_eq!(refused, Err(Code::AttemptFenced));
}

#[test]
fn a_bucket_made_again_takes_no_commit_of_the_old_one() {
    let mut world = World::new();
    let old = world.attempt();
    world.run(Command::DeleteBucket(named(B))).unwrap();
    world.create(B).unwrap();
    let late = Command::PutObject(Box::new(put_of("key", old, blocks(&[1]))));
    let refused = world.run(late).expect_err("it is of the old one");
    assert_eq!(refused.code, Code::NoSuchBucket);
    // No other chain is asked for the bucket: the one that answered has it.
    assert_eq!(S3::meaning(&refused), Meaning::Final);
    // What has no blocks is judged on the new one.
    let small = Command::PutObject(Box::new(put_of("key", old, inline("x"))));
    world.run(small).unwrap();
}

#[test]
fn the_index_of_a_deleted_bucket_stays_until_its_garbage_is_gone() {
    let mut world = World::new();
    let upload = world.upload("key");
    for (number, block) in (1..=40).zip(1..) {
        world.part(&upload, number, blocks(&[block])).unwrap();
    }
    let attempt = world.attempt();
    let part = part_of(&upload, 41, attempt, blocks(&[41]));
    world.run(Command::PutPart(part)).unwrap();
    let owned = owner(&world, attempt, Some(upload.upload));
    world.run(Command::DeleteBucket(named(B))).unwrap();
    assert_eq!(world.collection(B), None);
    assert_eq!(world.fence(owned, 41), Fenced::NoAnswer);
    world.create(B).unwrap();
    world.upkeep(3);
    let mut gone = Vec::new();
    while let Some(garbage) = world.garbage(owned.collection).pop() {
        let mut parts = Vec::new();
        for (number, blocks) in garbage.blocks {
            parts.extend(number);
            gone.extend(blocks.iter().map(|block| block.id));
        }
        let drop = DropGarbage {
            collection: owned.collection,
            bucket: attempt.bucket,
            garbage: garbage.id,
            parts,
        };
        world.run(Command::DropGarbage(drop)).unwrap();
    }
    gone.sort_unstable();
    assert_eq!(gone, (1..=41).collect::<Vec<u128>>());
    world.now_ms += world.limits.garbage_look_ms;
    world.upkeep(3);
    let settings = crate::s3::bucket::settings(&world.rows, owned.collection);
    assert_eq!(settings, Ok(None));
}

#[test]
fn a_commit_that_comes_again_is_answered_and_retires_nothing() {
    let mut world = World::new();
    let attempt = world.attempt();
    put(&mut world, attempt, 1).unwrap();
    put(&mut world, attempt, 1).unwrap();
    let collection = world.collection(B).unwrap();
    assert!(world.garbage(collection).is_empty());
    world.put("key", "new");
    let refused = put(&mut world, attempt, 1);
    assert_eq!(refused, Err(Code::AttemptFenced));
    assert_eq!(world.body("key", None), Ok("new".to_owned()));
}
