//! Eventual reads lag as far as they are told to, and no farther.

use super::super::{Model, Profile, Staleness, run};
use super::*;
use crate::domains::{Domains, ItemPut};
use crate::error::ErrorKind;

fn counter(value: usize) -> ItemPut {
    ItemPut {
        name: "i".to_owned(),
        attributes: vec![crate::AttributePut {
            name: "n".to_owned(),
            value: format!("{value:03}"),
            replace: true,
        }],
    }
}

async fn read(model: &Model, reading: ReadConsistency) -> Option<usize> {
    let found = model.domains.get("dom", "i", &[], reading).await.ok()?;
    found.first().map(|found| found.value.parse().unwrap())
}

/// How many seconds eventual reads are behind, with a write in each.
fn lags(seed: u64, staleness: Staleness) -> Vec<usize> {
    let domains = DomainProfile {
        staleness,
        ..DomainProfile::default()
    };
    let model = Model::new(Profile {
        seed,
        domains,
        ..Profile::default()
    });
    run(&model.clock, async {
        model.domains.create("dom").await.unwrap();
        let mut lags = Vec::new();
        for value in 0..200 {
            model
                .domains
                .put("dom", &counter(value), None)
                .await
                .unwrap();
            assert_eq!(read(&model, ReadConsistency::Strong).await, Some(value));
            let seen = read(&model, ReadConsistency::Eventual).await;
            lags.push(seen.map_or(value + 1, |seen| value - seen));
            model.clock.sleep(Duration::from_secs(1)).await;
        }
        lags
    })
}

/// It shows MDOMAIN-2.
#[test]
fn an_eventual_read_is_behind_by_no_more_than_the_profile_says() {
    let lags = lags(7, Staleness::Uniform(Duration::from_secs(4)));
    assert_eq!(lags.iter().max(), Some(&4));
    assert_eq!(lags.iter().min(), Some(&0));
}

#[test]
fn without_staleness_an_eventual_read_sees_all() {
    assert!(lags(0, Staleness::None).iter().all(|lag| *lag == 0));
}

#[test]
fn the_same_seed_gives_the_same_reads() {
    let lags = |seed| lags(seed, Staleness::Uniform(Duration::from_secs(4)));
    assert_eq!(lags(1), lags(1));
    assert_ne!(lags(1), lags(2));
}

#[test]
fn a_token_that_is_none_is_refused() {
    let model = Model::new(Profile::default());
    run(&model.clock, model.domains.create("dom")).unwrap();
    for token in ["x", "0", "00", "\u{e9}a"] {
        let page = model
            .domains
            .select("select * from dom", Some(token), ReadConsistency::Strong);
        assert_eq!(
            run(&model.clock, page).unwrap_err().kind,
            ErrorKind::Invalid,
            "{token}"
        );
    }
}
