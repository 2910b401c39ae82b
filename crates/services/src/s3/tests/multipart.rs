//! Multipart uploads.

use super::fixture::*;
use crate::s3::Code;
use crate::s3::command::*;
use crate::s3::reply::{Piece, Reply};
use crate::s3::rows::Block;

/// The MD5s of the parts "1" and "2", and the ETag that AWS gives to the two.
const PARTS: [&str; 2] = [
    "c4ca4238a0b923820dcc509a6f75849b",
    "c81e728d9d4c2f636f067f89cc14862c",
];

fn listed(number: u32, etag: &str) -> ListedPart {
    ListedPart {
        number,
        etag: etag.to_owned(),
        checksum: None,
    }
}

#[test]
fn the_etag_is_the_md5_of_those_of_the_parts() {
    use md5::{Digest as _, Md5};
    let mut world = World::new();
    let upload = world.upload("key");
    for (number, etag) in (1..).zip(PARTS) {
        let attempt = world.attempt();
        let mut part = part_of(&upload, number, attempt, inline(&number.to_string()));
        part.etag = etag.to_owned();
        world.run(Command::PutPart(part)).unwrap();
    }
    let parts = [listed(1, PARTS[0]), listed(2, PARTS[1])];
    let put = world.complete(&upload, &parts).unwrap();
    let sums = [Md5::digest("1"), Md5::digest("2")].concat();
    let sum = Md5::digest(sums);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(put.etag, format!("{hex}-2"));
    assert_eq!(world.body("key", None), Ok("12".to_owned()));
    let found = world.get_with("key", None, Extent::Part(2, 0)).unwrap();
    assert_eq!(found.extent.part, Some((1, 1)));
    assert_eq!(found.object().unwrap().parts, 2);
}

#[test]
fn completing_checks_the_list_and_the_sizes() {
    let mut world = World::new();
    world.limits.part_bytes_min = 2;
    let upload = world.upload("key");
    let one = world.part(&upload, 1, inline("ab")).unwrap();
    let two = world.part(&upload, 2, inline("c")).unwrap();
    let three = world.part(&upload, 3, inline("d")).unwrap();
    let mut code = |parts: &[ListedPart]| world.complete(&upload, parts).unwrap_err().code;
    assert_eq!(code(&[]), Code::MalformedXML);
    let both = [two.clone(), one.clone()];
    assert_eq!(code(&both), Code::InvalidPartOrder);
    assert_eq!(code(&[one.clone(), one.clone()]), Code::InvalidPartOrder);
    assert_eq!(code(&[listed(1, "other")]), Code::InvalidPart);
    assert_eq!(code(&[one.clone(), listed(9, "x")]), Code::InvalidPart);
    let small = [one.clone(), two.clone(), three];
    assert_eq!(code(&small), Code::EntityTooSmall);
    let mut wrong = complete_of(&upload, std::slice::from_ref(&one));
    wrong.size = Some(9);
    let told = world.code(Command::CompleteUpload(wrong));
    assert_eq!(told, Code::InvalidRequest);
    world.complete(&upload, &[one, two]).unwrap();
    assert_eq!(world.body("key", None), Ok("abc".to_owned()));
}

#[test]
fn an_upload_is_open_until_it_is_completed_or_aborted() {
    let mut world = World::new();
    let strange = OneUpload {
        upload: 7,
        ..world.upload("key")
    };
    let refused = world.part(&strange, 1, inline("x")).unwrap_err();
    assert_eq!(refused.code, Code::NoSuchUpload);
    let upload = world.upload("key");
    for number in [0, 10_001] {
        let refused = world.part(&upload, number, inline("x")).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
    }
    let part = world.part(&upload, 10_000, inline("x")).unwrap();
    let other = OneUpload {
        key: "other".to_owned(),
        ..upload.clone()
    };
    let refused = world.complete(&other, std::slice::from_ref(&part));
    assert_eq!(refused.unwrap_err().code, Code::NoSuchUpload);
    let first = world
        .complete(&upload, std::slice::from_ref(&part))
        .unwrap();
    let again = world
        .complete(&upload, std::slice::from_ref(&part))
        .unwrap();
    assert_eq!(first, again);
    let abort = Command::AbortUpload(upload.clone());
    assert_eq!(world.code(abort), Code::NoSuchUpload);
    let refused = world.part(&upload, 1, inline("x")).unwrap_err();
    assert_eq!(refused.code, Code::NoSuchUpload);
    world.delete("key", None).unwrap();
    let refused = world.complete(&upload, &[part]).unwrap_err();
    assert_eq!(refused.code, Code::NoSuchUpload);
}

#[test]
fn parts_and_uploads_are_listed_in_pages() {
    let mut world = World::new();
    let upload = world.upload("b");
    for number in [1, 5, 7] {
        world.part(&upload, number, inline("x")).unwrap();
    }
    let list = |after| {
        Command::ListParts(ListParts {
            of: upload.clone(),
            after,
            count: Some(2),
        })
    };
    let mut numbers = |after| match world.run(list(after)) {
        Ok(Reply::Parts(page)) => {
            let numbers: Vec<u32> = page.parts.iter().map(|it| it.0).collect();
            (numbers, page.next)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers(0), (vec![1, 5], Some(5)));
    assert_eq!(numbers(5), (vec![7], None));
    let mut mine = vec![("b".to_owned(), upload.upload)];
    for key in ["a", "b", "b", "c/1", "c/2"] {
        world.now_ms += 1;
        let other = world.upload(key);
        mine.push((other.key, other.upload));
    }
    // Those of one key come in the order of their times.
    mine.sort_by(|one, other| one.0.cmp(&other.0));
    let mut list = List {
        count: Some(1),
        ..list_of("", "")
    };
    let mut found = Vec::new();
    loop {
        let page = world.page(Command::ListUploads(list.clone()));
        for entry in page.entries {
            let crate::s3::reply::Entry::Upload { key, id, .. } = entry else {
                panic!("{entry:?}");
            };
            found.push((key, id));
        }
        let Some((after, id)) = page.next else { break };
        (list.after, list.after_id) = (Some(after), id);
    }
    assert_eq!(found, mine);
    let page = world.page(Command::ListUploads(list_of("", "/")));
    let names: Vec<&str> = page.entries.iter().map(|it| it.name()).collect();
    assert_eq!(names, ["a", "b", "b", "b", "c/"]);
}

/// A read from any byte of an object of many parts begins at the right one, with few rows.
#[test]
fn a_read_from_any_byte_of_many_parts_reads_few_rows() {
    let mut world = World::new();
    let upload = world.upload("key");
    let mut parts = Vec::new();
    for number in 1..=500_u32 {
        let id = u128::from(number);
        parts.push(world.part(&upload, number, blocks(&[id])).unwrap());
    }
    world.complete(&upload, &parts).unwrap();
    world.limits.read_blocks = 3;
    for from in [0, 1, 999, 1000, 63_999, 64_000, 321_500, 499_999] {
        let found = world.get_with("key", None, Extent::From(from)).unwrap();
        let (rows, tables) = world.rows.take();
        assert!(rows <= 80, "{rows} rows: {tables}");
        let first = u128::from(from / 1000) + 1;
        let Some(Piece::Block(Block { id, .. })) = found.extent.pieces.first() else {
            panic!("no block at {from}");
        };
        assert_eq!((*id, found.extent.at), (first, from / 1000 * 1000));
        let end = found.extent.at + 3000;
        assert_eq!(found.extent.next, (end < 500_000).then_some(end));
    }
    for number in [1, 64, 65, 500] {
        let found = world
            .get_with("key", None, Extent::Part(number, 0))
            .unwrap();
        let start = u64::from(number - 1) * 1000;
        assert_eq!(found.extent.part, Some((start, 1000)));
        assert_eq!(found.extent.pieces.len(), 1);
        assert_eq!(found.extent.next, None);
    }
    let refused = world.get_with("key", None, Extent::Part(501, 0));
    assert_eq!(refused.unwrap_err().code, Code::InvalidPartNumber);
}
