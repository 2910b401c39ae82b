//! Who may do what: a script for each rule.

use super::fixture::*;
use crate::policy::Principal;
use crate::s3::command::*;
use crate::s3::reply::*;
use crate::s3::rows::*;
use crate::s3::settings::*;
use crate::s3::{Action, Caller, Code, Error};

const OTHER: &str = "000000000002";
const THIRD: &str = "000000000003";

fn anonymous() -> Caller {
    Caller::of(Principal::Anonymous)
}

/// A key of the bucket's owner that has what policies give it.
fn granted() -> Caller {
    Caller {
        is_granted_only: true,
        ..Caller::of(Principal::Key((ACCOUNT.to_owned(), "KEY".to_owned())))
    }
}

/// Sets something as the owner; then another caller asks.
fn set(world: &mut World, setting: Setting) -> Result<(), Code> {
    world.as_account(ACCOUNT);
    let told = world.set(setting);
    told.map(drop).map_err(|error| error.code)
}

/// A bucket without a block of public access, whose objects are owned so.
fn open(ownership: Ownership) -> World {
    let mut world = World::empty();
    world.limits.public_access = None;
    world.limits.ownership = ownership;
    world.create(B).unwrap();
    world
}

fn policy(effect: &str, principal: &str, action: &str, rest: &str) -> Setting {
    let text = format!(
        r#"{{"Statement": [{{"Effect": "{effect}", "Principal": {principal}, "Action": {action},
            "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]{rest}}}]}}"#
    );
    Setting::Policy(text)
}

fn acl(canned: Canned) -> Option<GivenAcl> {
    Some(GivenAcl::Canned(canned))
}

fn put(world: &mut World, key: &str, given: Option<GivenAcl>) -> Result<(), Code> {
    let told = world.put_with(key, inline(key), |put| put.acl = given);
    told.map(drop).map_err(|error| error.code)
}

fn get(world: &mut World, key: &str) -> Result<(), Code> {
    world.body(key, None).map(drop)
}

fn look(world: &mut World, key: &str, action: Action) -> Result<Object, Code> {
    let get = GetObject {
        bucket: B.to_owned(),
        key: key.to_owned(),
        version: None,
        conditions: Default::default(),
        extent: Extent::Nothing,
        action,
    };
    match world.run(Command::GetObject(get)) {
        Ok(Reply::Object(found)) => Ok(found.object().unwrap().clone()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    }
}

fn list(world: &mut World) -> Result<(), Code> {
    let told = world.run(Command::ListObjects(list_of("", "")));
    told.map(drop).map_err(|error| error.code)
}

fn code<T>(told: Result<T, Error>) -> Result<(), Code> {
    told.map(drop).map_err(|error| error.code)
}

const DENIED: Result<(), Code> = Err(Code::AccessDenied);

/// It shows SA-2.
#[test]
fn without_policies_and_acls_a_bucket_is_its_owners() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    world.put("a", "x");
    for caller in [
        Caller::of(Principal::Account(OTHER.to_owned())),
        anonymous(),
        granted(),
    ] {
        world.as_(caller);
        assert_eq!(get(&mut world, "a"), DENIED);
        assert_eq!(put(&mut world, "a", None), DENIED);
        assert_eq!(list(&mut world), DENIED);
        assert_eq!(code(world.delete("a", None)), DENIED);
        assert_eq!(code(world.set(Setting::Tags(Pairs::new()))), DENIED);
        assert_eq!(
            world.code(Command::DeleteBucket(named(B))),
            Code::AccessDenied
        );
    }
    world.as_account(ACCOUNT);
    assert_eq!(get(&mut world, "a"), Ok(()));
}

#[test]
fn buckets_are_created_and_listed_by_accounts_alone() {
    let mut world = World::empty();
    for caller in [anonymous(), granted()] {
        world.as_(caller);
        assert_eq!(code(world.create("new-bucket")), DENIED);
        let list = Command::ListBuckets(ListBuckets::default());
        assert_eq!(world.code(list), Code::AccessDenied);
    }
}

#[test]
fn a_policy_gives_others_what_it_names_and_nothing_else() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    world.put("a", "x");
    let read = policy(
        "Allow",
        &format!(r#"{{"AWS": "{OTHER}"}}"#),
        r#""s3:GetObject""#,
        "",
    );
    set(&mut world, read).unwrap();
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "a"), Ok(()));
    assert_eq!(put(&mut world, "a", None), DENIED);
    assert_eq!(list(&mut world), DENIED);
    world.as_account(THIRD);
    assert_eq!(get(&mut world, "a"), DENIED);
    world.as_(anonymous());
    assert_eq!(get(&mut world, "a"), DENIED);
    set(&mut world, policy("Allow", r#""*""#, r#""s3:Put*""#, "")).unwrap();
    world.as_(anonymous());
    assert_eq!(put(&mut world, "b", None), Ok(()));
    assert_eq!(get(&mut world, "b"), DENIED);
    world.as_account(ACCOUNT);
    assert_eq!(
        look(&mut world, "b", Action::GetObject).unwrap().owner,
        ACCOUNT
    );
}

/// It shows SA-1.
#[test]
fn a_denial_holds_for_the_owner_but_for_the_policy_itself() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    world.put("a", "x");
    set(&mut world, policy("Deny", r#""*""#, r#""s3:*""#, "")).unwrap();
    assert_eq!(get(&mut world, "a"), DENIED);
    assert_eq!(code(world.set(Setting::Tags(Pairs::new()))), DENIED);
    let clear = OneSetting {
        bucket: B.to_owned(),
        name: SettingName::Policy,
    };
    world.run(Command::GetSetting(clear.clone())).unwrap();
    world.run(Command::DeleteSetting(clear)).unwrap();
    assert_eq!(get(&mut world, "a"), Ok(()));
}

#[test]
fn no_policy_gives_the_policy_to_other_accounts() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    set(&mut world, policy("Allow", r#""*""#, r#""s3:*""#, "")).unwrap();
    world.as_account(OTHER);
    let name = SettingName::Policy;
    let bucket = B.to_owned();
    let read = Command::GetSetting(OneSetting { bucket, name });
    assert_eq!(world.code(read), Code::AccessDenied);
    assert_eq!(
        code(world.set(policy("Allow", r#""*""#, r#""s3:*""#, ""))),
        DENIED
    );
    assert_eq!(list(&mut world), Ok(()));
}

/// It shows SA-3.
#[test]
fn a_key_with_granted_rights_has_what_policies_give_it() {
    let mut world = open(Ownership::ObjectWriter);
    world.put("a", "x");
    set(
        &mut world,
        Setting::Acl(GivenAcl::Canned(Canned::PublicRead)),
    )
    .unwrap();
    world.as_(granted());
    assert_eq!(list(&mut world), DENIED);
    let arn = format!(r#"{{"AWS": "arn:aws:iam::{ACCOUNT}:user/KEY"}}"#);
    let given = r#"["s3:PutObject", "s3:ListBucket"]"#;
    set(&mut world, policy("Allow", &arn, given, "")).unwrap();
    world.as_(granted());
    assert_eq!(list(&mut world), Ok(()));
    assert_eq!(put(&mut world, "b", None), Ok(()));
    assert_eq!(put(&mut world, "b", acl(Canned::PublicRead)), DENIED);
    assert_eq!(get(&mut world, "a"), DENIED);
    let upload = world.upload("c");
    let part = world.part(&upload, 1, inline("x")).unwrap();
    world.complete(&upload, &[part]).unwrap();
}

#[test]
fn conditions_see_the_request_and_the_tags_of_the_object() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    let tag = |value: &str| vec![("class".to_owned(), value.to_owned())];
    for value in ["public", "secret"] {
        let told = world.put_with(value, inline("x"), |put| put.metadata.tags = tag(value));
        told.unwrap();
    }
    let only = r#", "Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "public"}}"#;
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:GetObject""#, only),
    )
    .unwrap();
    world.as_(anonymous());
    assert_eq!(get(&mut world, "public"), Ok(()));
    assert_eq!(get(&mut world, "secret"), DENIED);
    let only = r#", "Condition": {"StringEquals": {"s3:RequestObjectTag/class": "public"}}"#;
    let actions = r#"["s3:PutObject", "s3:PutObjectTagging"]"#;
    set(&mut world, policy("Allow", r#""*""#, actions, only)).unwrap();
    world.as_(anonymous());
    for (value, told) in [("public", Ok(())), ("secret", DENIED)] {
        let put = world.put_with("new", inline("x"), |put| put.metadata.tags = tag(value));
        assert_eq!(code(put), told);
    }
    let only = r#", "Condition": {"StringLike": {"s3:prefix": "a/*"}}"#;
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:ListBucket""#, only),
    )
    .unwrap();
    for (prefix, told) in [("a/b", Ok(())), ("b/", DENIED)] {
        let mut caller = anonymous();
        caller.keys = vec![("s3:prefix".to_owned(), prefix.to_owned())];
        world.as_(caller);
        assert_eq!(list(&mut world), told);
    }
}

#[test]
fn conditions_see_the_tags_that_an_object_is_given_later() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    world.put("a", "x");
    let tag = |value: &str| {
        Command::PutObjectTags(PutObjectTags {
            bucket: B.to_owned(),
            key: "a".to_owned(),
            version: None,
            tags: vec![("class".to_owned(), value.to_owned())],
        })
    };
    let is_public = r#", "Condition": {"StringEquals": {"s3:RequestObjectTag/class": "public"}}"#;
    let action = r#""s3:PutObjectTagging""#;
    set(&mut world, policy("Allow", r#""*""#, action, is_public)).unwrap();
    world.as_(anonymous());
    assert_eq!(code(world.run(tag("public"))), Ok(()));
    assert_eq!(code(world.run(tag("secret"))), DENIED);
    set(&mut world, policy("Deny", r#""*""#, action, is_public)).unwrap();
    assert_eq!(code(world.run(tag("public"))), DENIED);
    assert_eq!(code(world.run(tag("secret"))), Ok(()));
}

#[test]
fn a_policy_is_about_its_own_bucket() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    let about = |resource: &str| {
        let statement =
            format!(r#"{{"Effect": "Allow", "Principal": "*", "Action": "s3:*"{resource}}}"#);
        Setting::Policy(format!(r#"{{"Statement": {statement}}}"#))
    };
    for resource in [
        "",
        r#", "Resource": "arn:aws:s3:::photos2/*""#,
        r#", "Resource": "a""#,
    ] {
        let told = set(&mut world, about(resource));
        assert_eq!(told, Err(Code::MalformedPolicy), "{resource}");
    }
    let none = Setting::Policy(r#"{"Statement": []}"#.to_owned());
    assert_eq!(set(&mut world, none), Err(Code::MalformedPolicy));
    set(
        &mut world,
        about(r#", "Resource": "arn:aws:s3:::photos/*""#),
    )
    .unwrap();
}

/// A denial that tests it would never apply.
#[test]
fn a_policy_tests_no_unknown_key_and_has_no_variable() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    let denied = |condition: &str| {
        let condition = format!(r#", "Condition": {{"StringEquals": {{{condition}}}}}"#);
        policy("Deny", r#""*""#, r#""s3:GetObject""#, &condition)
    };
    for condition in [
        r#""s3:signatureAges": "1""#,
        r#""s3:TlsVersion": "1.2""#,
        r#""prefix": "a""#,
        r#""s3:prefix": "${aws:username}/""#,
    ] {
        let told = set(&mut world, denied(condition));
        assert_eq!(told, Err(Code::MalformedPolicy), "{condition}");
    }
    for condition in [
        r#""S3:SignatureAge": "1""#,
        r#""s3:ExistingObjectTag/a": "1""#,
        r#""s3:x-amz-server-side-encryption": "AES256""#,
        r#""aws:SourceVpce": "v""#,
    ] {
        set(&mut world, denied(condition)).unwrap();
    }
    let text = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "arn:aws:s3:::photos/${aws:username}/*"}}"#;
    let told = set(&mut world, Setting::Policy(text.to_owned()));
    assert_eq!(told, Err(Code::MalformedPolicy));
}

/// It shows SA-4.
#[test]
fn an_object_that_is_missing_is_told_to_those_who_may_list() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "none"), DENIED);
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:ListBucket""#, ""),
    )
    .unwrap();
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "none"), Err(Code::NoSuchKey));
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:GetObject""#, ""),
    )
    .unwrap();
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "none"), DENIED);
    let only = r#", "Condition": {"StringLike": {"s3:prefix": "a/*"}}"#;
    let list = policy("Allow", r#""*""#, r#""s3:ListBucket""#, only);
    set(&mut world, list).unwrap();
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "a/b"), Err(Code::NoSuchKey));
    assert_eq!(get(&mut world, "b"), DENIED);
}

#[test]
fn acls_of_buckets_give_lists_and_writes() {
    let mut world = open(Ownership::ObjectWriter);
    world.put("a", "x");
    let grants = vec![
        (Grantee::Account(OTHER.to_owned()), Permission::Write),
        (Grantee::AuthenticatedUsers, Permission::Read),
        (Grantee::Account(THIRD.to_owned()), Permission::ReadAcp),
    ];
    set(&mut world, Setting::Acl(GivenAcl::Grants(grants))).unwrap();
    world.as_account(OTHER);
    assert_eq!(put(&mut world, "b", None), Ok(()));
    assert_eq!(code(world.delete("a", None)), Ok(()));
    assert_eq!(list(&mut world), Ok(()));
    world.as_account(THIRD);
    assert_eq!(put(&mut world, "c", None), DENIED);
    let bucket = B.to_owned();
    let name = SettingName::Acl;
    world
        .run(Command::GetSetting(OneSetting { bucket, name }))
        .unwrap();
    assert_eq!(
        code(world.set(Setting::Acl(GivenAcl::Canned(Canned::Private)))),
        DENIED
    );
    world.as_(anonymous());
    assert_eq!(list(&mut world), DENIED);
}

#[test]
fn acls_of_objects_give_reads() {
    let mut world = open(Ownership::ObjectWriter);
    put(&mut world, "a", acl(Canned::PublicRead)).unwrap();
    put(&mut world, "b", acl(Canned::AuthenticatedRead)).unwrap();
    put(&mut world, "c", None).unwrap();
    world.as_(anonymous());
    assert_eq!(get(&mut world, "a"), Ok(()));
    assert_eq!(get(&mut world, "b"), DENIED);
    assert_eq!(put(&mut world, "a", None), DENIED);
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "b"), Ok(()));
    assert_eq!(get(&mut world, "c"), DENIED);
    assert_eq!(
        look(&mut world, "b", Action::GetObjectAcl).map(drop),
        DENIED
    );
    world.as_account(ACCOUNT);
    let given = PutObjectAcl {
        bucket: B.to_owned(),
        key: "c".to_owned(),
        version: None,
        acl: GivenAcl::Grants(vec![(
            Grantee::Account(OTHER.to_owned()),
            Permission::FullControl,
        )]),
    };
    world.run(Command::PutObjectAcl(given.clone())).unwrap();
    world.as_account(OTHER);
    assert_eq!(get(&mut world, "c"), Ok(()));
    assert!(
        look(&mut world, "c", Action::GetObjectAcl)
            .unwrap()
            .acl
            .is_some()
    );
    world.run(Command::PutObjectAcl(given)).unwrap();
}

#[test]
fn objects_are_their_writers_where_the_ownership_says_so() {
    let mut world = open(Ownership::ObjectWriter);
    let all = GivenAcl::Canned(Canned::PublicReadWrite);
    set(&mut world, Setting::Acl(all)).unwrap();
    world.as_account(OTHER);
    put(&mut world, "a", None).unwrap();
    put(&mut world, "b", acl(Canned::BucketOwnerFullControl)).unwrap();
    let upload = world.upload("c");
    let part = world.part(&upload, 1, inline("x")).unwrap();
    world.complete(&upload, &[part]).unwrap();
    world.as_account(ACCOUNT);
    assert_eq!(get(&mut world, "a"), DENIED);
    assert_eq!(get(&mut world, "c"), DENIED);
    assert_eq!(
        look(&mut world, "b", Action::GetObject).unwrap().owner,
        OTHER
    );
    // A policy gives what its bucket's owner owns.
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:GetObject""#, ""),
    )
    .unwrap();
    world.as_account(THIRD);
    assert_eq!(get(&mut world, "a"), DENIED);
    set(
        &mut world,
        Setting::Ownership(Ownership::BucketOwnerPreferred),
    )
    .unwrap();
    world.as_account(OTHER);
    put(&mut world, "b", acl(Canned::BucketOwnerFullControl)).unwrap();
    world.as_account(ACCOUNT);
    assert_eq!(
        look(&mut world, "b", Action::GetObject).unwrap().owner,
        ACCOUNT
    );
    let page = world.page(Command::ListObjects(list_of("", "")));
    let owners = page.entries.iter().map(|entry| match entry {
        Entry::Version { version, .. } => version.object().unwrap().owner.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(owners.collect::<Vec<_>>(), [OTHER, ACCOUNT, OTHER]);
    set(&mut world, Setting::Acl(GivenAcl::Canned(Canned::Private))).unwrap();
    set(
        &mut world,
        Setting::Ownership(Ownership::BucketOwnerEnforced),
    )
    .unwrap();
    assert_eq!(
        look(&mut world, "a", Action::GetObject).unwrap().owner,
        ACCOUNT
    );
    world.as_account(OTHER);
    assert_eq!(
        look(&mut world, "a", Action::GetObjectAcl).map(drop),
        DENIED
    );
}

#[test]
fn acls_are_refused_where_the_bucket_owner_owns_all() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    let refused = Err(Code::AccessControlListNotSupported);
    assert_eq!(put(&mut world, "a", acl(Canned::PublicRead)), refused);
    assert_eq!(put(&mut world, "a", acl(Canned::Private)), Ok(()));
    let own = Setting::Acl(GivenAcl::Canned(Canned::Private));
    assert_eq!(set(&mut world, own), Ok(()));
    assert_eq!(
        put(&mut world, "a", acl(Canned::BucketOwnerFullControl)),
        Ok(())
    );
    let create = |acl| {
        Command::CreateBucket(CreateBucket {
            bucket: "second".to_owned(),
            acl,
            ..CreateBucket::default()
        })
    };
    let code = world.code(create(acl(Canned::PublicRead)));
    assert_eq!(code, Code::InvalidBucketAclWithObjectOwnership);
    world.run(create(acl(Canned::Private))).unwrap();
}

#[test]
fn a_block_of_public_access_refuses_and_ignores_what_is_public() {
    let mut world = open(Ownership::ObjectWriter);
    put(&mut world, "a", acl(Canned::PublicRead)).unwrap();
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:ListBucket""#, ""),
    )
    .unwrap();
    let block = |change: fn(&mut PublicAccessBlock)| {
        let mut block = PublicAccessBlock {
            block_public_acls: false,
            ignore_public_acls: false,
            block_public_policy: false,
            restrict_public_buckets: false,
        };
        change(&mut block);
        Setting::PublicAccess(block)
    };
    world.as_account(OTHER);
    assert_eq!((get(&mut world, "a"), list(&mut world)), (Ok(()), Ok(())));
    set(&mut world, block(|it| it.ignore_public_acls = true)).unwrap();
    world.as_account(OTHER);
    assert_eq!((get(&mut world, "a"), list(&mut world)), (DENIED, Ok(())));
    set(&mut world, block(|it| it.restrict_public_buckets = true)).unwrap();
    world.as_account(OTHER);
    assert_eq!((get(&mut world, "a"), list(&mut world)), (Ok(()), DENIED));
    set(&mut world, block(|it| it.block_public_acls = true)).unwrap();
    assert_eq!(put(&mut world, "b", acl(Canned::PublicRead)), DENIED);
    assert_eq!(
        set(
            &mut world,
            Setting::Acl(GivenAcl::Canned(Canned::PublicRead))
        ),
        DENIED
    );
    set(&mut world, block(|it| it.block_public_policy = true)).unwrap();
    let public = policy("Allow", r#""*""#, r#""s3:GetObject""#, "");
    assert_eq!(set(&mut world, public), DENIED);
    let narrow = r#", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#;
    set(
        &mut world,
        policy("Allow", r#""*""#, r#""s3:GetObject""#, narrow),
    )
    .unwrap();
}

#[test]
fn an_upload_is_its_initiators_beside_those_who_may() {
    let mut world = open(Ownership::ObjectWriter);
    set(
        &mut world,
        Setting::Acl(GivenAcl::Canned(Canned::PublicReadWrite)),
    )
    .unwrap();
    world.as_account(OTHER);
    let upload = world.upload("a");
    let parts = Command::ListParts(ListParts {
        of: upload.clone(),
        after: 0,
        count: None,
    });
    let Ok(Reply::Parts(shown)) = world.run(parts.clone()) else {
        panic!("no parts");
    };
    assert_eq!(
        (&*shown.upload.initiator, &*shown.upload.owner),
        (OTHER, OTHER)
    );
    world.as_account(THIRD);
    assert_eq!(world.code(parts), Code::AccessDenied);
    assert_eq!(
        world.code(Command::AbortUpload(upload.clone())),
        Code::AccessDenied
    );
    world.as_account(ACCOUNT);
    world.run(Command::AbortUpload(upload)).unwrap();
}

#[test]
fn an_expected_owner_is_the_owner_or_all_is_refused() {
    let mut world = World::new();
    world.put("a", "x");
    world.caller.expected_owner = Some(OTHER.to_owned());
    assert_eq!(get(&mut world, "a"), DENIED);
    assert_eq!(put(&mut world, "a", None), DENIED);
    world.caller.expected_owner = Some(ACCOUNT.to_owned());
    assert_eq!(get(&mut world, "a"), Ok(()));
}

#[test]
fn each_of_several_deletions_is_judged() {
    let mut world = open(Ownership::BucketOwnerEnforced);
    for key in ["a/1", "b/1"] {
        world.put(key, "x");
    }
    let text = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:DeleteObject",
        "Resource": "arn:aws:s3:::photos/a/*"}}"#;
    set(&mut world, Setting::Policy(text.to_owned())).unwrap();
    world.as_(anonymous());
    let objects = ["a/1", "b/1"].map(|key| Deletion {
        key: key.to_owned(),
        ..Deletion::default()
    });
    let bucket = B.to_owned();
    let objects = objects.to_vec();
    let told = world.run(Command::DeleteObjects(DeleteObjects { bucket, objects }));
    let Ok(Reply::DeletedSeveral(told)) = told else {
        panic!("{told:?}");
    };
    let told: Vec<_> = told.into_iter().map(code).collect();
    assert_eq!(told, [Ok(()), DENIED]);
}
