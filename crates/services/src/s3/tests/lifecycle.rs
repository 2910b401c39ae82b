//! The lifecycle, with the clock driven by hand.

use super::fixture::*;
use crate::s3::command::*;
use crate::s3::reply::{Entry, Expiry};
use crate::s3::settings::*;
use crate::s3::{Code, Limits, abortion};

fn world(versioning: Versioning, rules: Vec<LifecycleRule>) -> World {
    let mut world = World::new();
    if versioning != Versioning::Off {
        world.versioning(versioning);
    }
    world.set(Setting::Lifecycle(rules)).unwrap();
    world
}

fn rule(prefix: &str, change: impl FnOnce(&mut LifecycleRule)) -> LifecycleRule {
    let mut rule = LifecycleRule {
        is_enabled: true,
        ..LifecycleRule::default()
    };
    rule.filter.prefix = prefix.to_owned();
    change(&mut rule);
    rule
}

fn pass_days(world: &mut World, days: u64) {
    for _ in 0..days {
        world.now_ms += DAY;
        world.upkeep(3);
    }
}

fn versions(world: &mut World) -> usize {
    let page = world.page(Command::ListVersions(list_of("", "")));
    page.entries.len()
}

#[test]
fn objects_expire_at_the_midnight_after_their_days() {
    let rules = vec![rule("logs/", |rule| {
        rule.expiration = Some(Expiration::Days(2));
    })];
    let mut world = world(Versioning::Off, rules);
    world.now_ms += 1;
    for key in ["logs/1", "logs/2", "logs/3", "logs/4", "photos/1"] {
        world.put(key, "x");
    }
    pass_days(&mut world, 2);
    assert_eq!(versions(&mut world), 5);
    pass_days(&mut world, 1);
    assert_eq!(versions(&mut world), 1);
    assert_eq!(world.body("photos/1", None), Ok("x".to_owned()));
}

#[test]
fn rules_choose_by_tag_and_size_and_only_enabled_ones_count() {
    let rules = vec![
        rule("", |rule| {
            rule.filter.tags = vec![("temporary".to_owned(), "yes".to_owned())];
            rule.filter.larger = Some(1);
            rule.expiration = Some(Expiration::Date(START + DAY));
        }),
        rule("", |rule| {
            rule.is_enabled = false;
            rule.expiration = Some(Expiration::Days(1));
        }),
    ];
    let mut world = world(Versioning::Off, rules);
    let tagged = |put: &mut PutObject| {
        put.metadata.tags = vec![("temporary".to_owned(), "yes".to_owned())];
    };
    world.put_with("large", inline("xx"), tagged).unwrap();
    world.put_with("small", inline("x"), tagged).unwrap();
    world.put("other", "xx");
    pass_days(&mut world, 3);
    assert_eq!(world.body("large", None), Err(Code::NoSuchKey));
    assert_eq!(versions(&mut world), 2);
}

/// It shows SX-1.
#[test]
fn an_expired_version_is_hidden_then_removed_and_its_marker_last() {
    let rules = vec![
        rule("", |rule| {
            rule.expiration = Some(Expiration::Days(1));
            rule.noncurrent = Some((1, 0));
        }),
        rule("", |rule| rule.expiration = Some(Expiration::Markers)),
    ];
    let mut world = world(Versioning::Enabled, rules);
    world.put("key", "x");
    pass_days(&mut world, 1);
    assert_eq!(world.body("key", None), Err(Code::NoSuchKey));
    assert_eq!(versions(&mut world), 2);
    pass_days(&mut world, 1);
    pass_days(&mut world, 1);
    assert_eq!(versions(&mut world), 0);
}

#[test]
fn a_delete_marker_that_is_alone_goes_with_its_age() {
    for expiration in [Expiration::Days(1), Expiration::Date(START + DAY)] {
        let rules = vec![rule("logs/", |rule| rule.expiration = Some(expiration))];
        let mut world = world(Versioning::Enabled, rules);
        world.now_ms += 1;
        for key in ["logs/alone", "logs/above", "photos/alone"] {
            world.delete(key, None).unwrap();
        }
        world.delete("logs/above", None).unwrap();
        assert_eq!(versions(&mut world), 4);
        pass_days(&mut world, 2);
        assert_eq!(versions(&mut world), 3, "{expiration:?}");
    }
    // Markers have no tags, and no size.
    let rules = vec![rule("", |rule| {
        rule.expiration = Some(Expiration::Days(1));
        rule.filter.smaller = Some(10);
    })];
    let mut world = world(Versioning::Enabled, rules);
    world.delete("alone", None).unwrap();
    pass_days(&mut world, 3);
    assert_eq!(versions(&mut world), 1);
}

#[test]
fn so_many_of_the_newest_old_versions_are_kept() {
    let rules = vec![rule("", |rule| rule.noncurrent = Some((1, 2)))];
    let mut world = world(Versioning::Enabled, rules);
    for number in 0..10 {
        world.put("key", &number.to_string());
        world.put("other", &number.to_string());
    }
    pass_days(&mut world, 2);
    let page = world.page(Command::ListVersions(list_of("", "")));
    let mut kept = Vec::new();
    for entry in page.entries {
        let Entry::Version { key, version, .. } = entry else {
            panic!("{entry:?}");
        };
        kept.push(world.body(&key, Some(version.id)).unwrap());
    }
    assert_eq!(kept, ["9", "8", "7", "9", "8", "7"]);
}

#[test]
fn uploads_that_are_open_too_long_are_aborted() {
    let rules = vec![rule("a", |rule| rule.abort_days = Some(1))];
    let mut world = world(Versioning::Off, rules);
    let old = world.upload("a");
    let part = world.part(&old, 1, blocks(&[1])).unwrap();
    let other = world.upload("b");
    pass_days(&mut world, 1);
    let refused = world.complete(&old, &[part]).unwrap_err();
    assert_eq!(refused.code, Code::NoSuchUpload);
    let collection = world.collection(B).unwrap();
    assert_eq!(world.garbage(collection).len(), 1);
    world.part(&other, 1, inline("x")).unwrap();
}

#[test]
fn the_first_rule_that_aborts_an_upload_is_told() {
    let rules = vec![
        rule("a", |rule| rule.abort_days = Some(9)),
        rule("a/", |rule| {
            rule.id = "soon".to_owned();
            rule.abort_days = Some(2);
        }),
        rule("a/", |rule| {
            rule.is_enabled = false;
            rule.abort_days = Some(1);
        }),
        rule("", |rule| rule.expiration = Some(Expiration::Days(1))),
    ];
    let settings = Settings {
        lifecycle: Some(rules),
        ..Settings::default()
    };
    let told = |key| {
        let told = abortion(&settings, &Limits::default(), key, START + 1);
        told.map(|it| (it.at_ms, it.rule))
    };
    assert_eq!(told("a/1"), Some((START + 3 * DAY, "soon".to_owned())));
    assert_eq!(told("ab"), Some((START + 10 * DAY, String::new())));
    assert_eq!(told("b"), None);
}

#[test]
fn a_setting_shortens_the_day_and_without_rules_nothing_is_due() {
    let rules = vec![rule("", |rule| {
        rule.expiration = Some(Expiration::Days(1));
    })];
    let mut world = world(Versioning::Off, rules);
    world.limits.day_ms = 1000;
    world.upkeep(3);
    world.put("key", "x");
    world.now_ms += 1000;
    world.upkeep(3);
    assert_eq!(world.body("key", None), Err(Code::NoSuchKey));
    let one = OneSetting {
        bucket: B.to_owned(),
        name: SettingName::Lifecycle,
    };
    world.run(Command::DeleteSetting(one)).unwrap();
    world.put("key", "x");
    world.now_ms += 10_000;
    world.upkeep(3);
    let before = world.entry();
    world.now_ms += 10_000;
    world.upkeep(3);
    assert_eq!(world.entry(), before);
    assert_eq!(world.body("key", None), Ok("x".to_owned()));
}

#[test]
fn the_expiry_of_a_rule_is_told_of_current_versions() {
    let date_ms = START + 3 * DAY;
    let rules = vec![
        rule("a/", |rule| {
            rule.id = "slow".to_owned();
            rule.expiration = Some(Expiration::Days(9));
        }),
        rule("a/", |rule| {
            rule.id = "date".to_owned();
            rule.expiration = Some(Expiration::Date(date_ms));
            rule.filter.tags = vec![("t".to_owned(), "1".to_owned())];
        }),
        rule("a/", |rule| {
            rule.is_enabled = false;
            rule.expiration = Some(Expiration::Days(1));
        }),
    ];
    let mut world = world(Versioning::Enabled, rules);
    world.now_ms = START + 1;
    let ten_days_ms = START + 10 * DAY;
    let expiry = |at_ms, rule: &str| {
        Some(Expiry {
            at_ms,
            rule: rule.to_owned(),
        })
    };
    let old = world.put("a/1", "x");
    assert_eq!(old.expiry, expiry(ten_days_ms, "slow"));
    assert_eq!(world.put("b/1", "x").expiry, None);
    let tagged = world.put_with("a/1", inline("x"), |put| {
        put.metadata.tags = vec![("t".to_owned(), "1".to_owned())];
    });
    assert_eq!(tagged.unwrap().expiry, expiry(date_ms, "date"));
    let found = |world: &mut World, version| {
        let found = world.get_with("a/1", version, Extent::Nothing);
        found.unwrap().expiry
    };
    assert_eq!(found(&mut world, None), expiry(date_ms, "date"));
    assert_eq!(found(&mut world, old.version), None);
}
