//! Buckets are created, set, listed and deleted.

use super::fixture::*;
use crate::s3::Code;
use crate::s3::command::*;
use crate::s3::reply::Reply;
use crate::s3::settings::*;

fn create_in(world: &mut World, bucket: &str, region: &str) -> Result<Reply, Code> {
    let told = world.run(Command::CreateBucket(CreateBucket {
        bucket: bucket.to_owned(),
        region: region.to_owned(),
        ..CreateBucket::default()
    }));
    told.map_err(|error| error.code)
}

#[test]
fn names_of_buckets_have_their_rules() {
    let mut world = World::empty();
    let long = "a".repeat(63);
    for name in ["abc", "a-b.c9", "0ab", &long] {
        world.create(name).unwrap();
    }
    let too_long = "a".repeat(64);
    let refused = [
        "",
        "ab",
        &too_long,
        "Abc",
        "a_b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "a..b",
        "a.-b",
        "1.2.3.4",
        "xn--abc",
        "abc-s3alias",
        "healthz",
        "metrics",
        "console",
        "a b",
        "ab/c",
    ];
    for name in refused {
        let told = create_in(&mut world, name, "us-east-1");
        assert_eq!(told, Err(Code::InvalidBucketName), "{name}");
    }
}

#[test]
fn an_own_bucket_is_created_again_in_the_first_region_only() {
    let mut world = World::empty();
    let first = create_in(&mut world, B, "us-east-1").unwrap();
    assert_eq!(create_in(&mut world, B, "us-east-1"), Ok(first));
    assert_eq!(
        create_in(&mut world, B, "eu-west-1"),
        Err(Code::BucketAlreadyOwnedByYou)
    );
    create_in(&mut world, "other", "eu-west-1").unwrap();
    assert_eq!(
        create_in(&mut world, "other", "eu-west-1"),
        Err(Code::BucketAlreadyOwnedByYou)
    );
}

#[test]
fn a_name_is_the_clusters_and_its_bucket_the_owners() {
    let mut world = World::new();
    world.as_account("000000000002");
    assert_eq!(
        create_in(&mut world, B, "us-east-1"),
        Err(Code::BucketAlreadyExists)
    );
    assert_eq!(world.code(head_of(B)), Code::AccessDenied);
    assert_eq!(
        world.code(Command::DeleteBucket(named(B))),
        Code::AccessDenied
    );
    assert_eq!(world.code(head_of("none")), Code::NoSuchBucket);
}

#[test]
fn buckets_are_listed_by_prefix_in_pages() {
    let mut world = World::empty();
    for name in ["logs-1", "logs-2", "logs-3", "photos"] {
        world.create(name).unwrap();
    }
    let mut list = ListBuckets {
        prefix: "logs".to_owned(),
        count: Some(2),
        after: None,
    };
    let mut pages = Vec::new();
    loop {
        let Ok(Reply::Buckets(page)) = world.run(Command::ListBuckets(list.clone())) else {
            panic!("no page");
        };
        for (name, settings) in page.buckets {
            assert_eq!(settings.unwrap().created_ms, START);
            pages.push(name);
        }
        let Some(next) = page.next else { break };
        list.after = Some(next);
    }
    assert_eq!(pages, ["logs-1", "logs-2", "logs-3"]);
}

#[test]
fn so_many_buckets_has_an_account() {
    let mut world = World::empty();
    world.limits.buckets_per_account = 2;
    world.create("one").unwrap();
    world.create("two").unwrap();
    assert_eq!(
        create_in(&mut world, "three", "us-east-1"),
        Err(Code::TooManyBuckets)
    );
    world.create("two").unwrap();
}

#[test]
fn a_bucket_with_a_version_or_a_marker_is_not_deleted() {
    let mut world = World::versioned();
    world.delete("key", None).unwrap();
    let delete = Command::DeleteBucket(named(B));
    assert_eq!(world.code(delete.clone()), Code::BucketNotEmpty);
    let page = world.page(Command::ListVersions(list_of("", "")));
    let crate::s3::reply::Entry::Version { key, version, .. } = &page.entries[0] else {
        panic!("no version");
    };
    world.delete(key, Some(version.id)).unwrap();
    world.put("key", "x");
    assert_eq!(world.code(delete), Code::BucketNotEmpty);
}

fn get(world: &mut World, name: SettingName) -> Result<Setting, Code> {
    let one = OneSetting {
        bucket: B.to_owned(),
        name,
    };
    match world.run(Command::GetSetting(one)) {
        Ok(Reply::Setting(setting)) => Ok(setting),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    }
}

fn clear(world: &mut World, name: SettingName) -> Result<(), Code> {
    let bucket = B.to_owned();
    let told = world.run(Command::DeleteSetting(OneSetting { bucket, name }));
    told.map(drop).map_err(|error| error.code)
}

#[test]
fn settings_are_shown_as_they_were_set_and_missed_with_codes_of_their_own() {
    let mut world = World::new();
    let policy = r#"{"Statement": {"Effect": "Allow", "Principal": "*",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*",
        "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}}"#;
    let cors = CorsRule {
        origins: vec!["https://*.example.com".to_owned()],
        methods: vec!["GET".to_owned()],
        ..CorsRule::default()
    };
    let rule = LifecycleRule {
        is_enabled: true,
        expiration: Some(Expiration::Days(3)),
        ..LifecycleRule::default()
    };
    use SettingName as Name;
    let tags = vec![("team".to_owned(), "a".to_owned())];
    let all = [
        (Name::Tags, Setting::Tags(tags), Code::NoSuchTagSet),
        (
            Name::Policy,
            Setting::Policy(policy.to_owned()),
            Code::NoSuchBucketPolicy,
        ),
        (
            Name::Cors,
            Setting::Cors(vec![cors]),
            Code::NoSuchCORSConfiguration,
        ),
        (
            Name::Lifecycle,
            Setting::Lifecycle(vec![rule]),
            Code::NoSuchLifecycleConfiguration,
        ),
    ];
    for (name, setting, missing) in all {
        assert_eq!(get(&mut world, name), Err(missing));
        world.set(setting.clone()).unwrap();
        assert_eq!(get(&mut world, name), Ok(setting));
        clear(&mut world, name).unwrap();
        clear(&mut world, name).unwrap();
        assert_eq!(get(&mut world, name), Err(missing));
    }
    let public = Setting::PublicAccess(PublicAccessBlock::default());
    assert_eq!(get(&mut world, Name::PublicAccess), Ok(public));
    clear(&mut world, Name::PublicAccess).unwrap();
    let missing = Code::NoSuchPublicAccessBlockConfiguration;
    assert_eq!(get(&mut world, Name::PublicAccess), Err(missing));
    assert_eq!(
        get(&mut world, Name::Versioning),
        Ok(Setting::Versioning(Versioning::Off))
    );
}

#[test]
fn an_acl_needs_an_ownership_that_permits_it() {
    let mut world = World::new();
    let other = Grantee::Account("000000000002".to_owned());
    let acl = Setting::Acl(GivenAcl::Grants(vec![(other, Permission::Read)]));
    let code = world.set(acl.clone()).unwrap_err().code;
    assert_eq!(code, Code::AccessControlListNotSupported);
    world
        .set(Setting::Ownership(Ownership::ObjectWriter))
        .unwrap();
    world.set(acl.clone()).unwrap();
    assert_eq!(get(&mut world, SettingName::Acl), Ok(acl));
    let back = Setting::Ownership(Ownership::BucketOwnerEnforced);
    let code = world.set(back).unwrap_err().code;
    assert_eq!(code, Code::InvalidBucketAclWithObjectOwnership);
}

#[test]
fn refused_settings_say_what_is_wrong() {
    let mut world = World::new();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let rule = |change: fn(&mut LifecycleRule)| {
        let mut rule = LifecycleRule {
            expiration: Some(Expiration::Days(1)),
            ..LifecycleRule::default()
        };
        change(&mut rule);
        Setting::Lifecycle(vec![rule])
    };
    let cors = |origin: &str, method: &str| {
        Setting::Cors(vec![CorsRule {
            origins: vec![origin.to_owned()],
            methods: vec![method.to_owned()],
            ..CorsRule::default()
        }])
    };
    let refused = [
        (
            Setting::Tags(vec![pair("a", "1"), pair("a", "2")]),
            Code::InvalidTag,
        ),
        (Setting::Tags(vec![pair("", "1")]), Code::InvalidTag),
        (Setting::Tags(vec![pair("x", "y"); 51]), Code::InvalidTag),
        (Setting::Policy("{".to_owned()), Code::MalformedPolicy),
        (Setting::Versioning(Versioning::Off), Code::MalformedXML),
        (Setting::Cors(Vec::new()), Code::MalformedXML),
        (cors("*", "PATCH"), Code::InvalidRequest),
        (cors("*.*", "GET"), Code::InvalidRequest),
        (Setting::Lifecycle(Vec::new()), Code::MalformedXML),
        (rule(|rule| rule.expiration = None), Code::MalformedXML),
        (
            rule(|rule| rule.expiration = Some(Expiration::Days(0))),
            Code::InvalidArgument,
        ),
        (
            rule(|rule| rule.expiration = Some(Expiration::Date(1))),
            Code::InvalidArgument,
        ),
        (
            rule(|rule| {
                rule.abort_days = Some(1);
                rule.filter.larger = Some(1);
            }),
            Code::InvalidRequest,
        ),
    ];
    for (setting, code) in refused {
        let shown = format!("{setting:?}");
        assert_eq!(world.set(setting).unwrap_err().code, code, "{shown}");
    }
}
