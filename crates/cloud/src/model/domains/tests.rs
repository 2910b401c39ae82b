//! Eventual reads lag as far as they are told to, and no farther.

use super::super::{Model, run};
use super::*;

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

async fn read(model: &Model, reading: Reading) -> Option<usize> {
    let found = model.domains.get("dom", "i", &[], reading).await.ok()?;
    found.first().map(|found| found.value.parse().unwrap())
}

/// How far eventual reads are behind, over many writes.
fn lags(weather: Weather) -> Vec<usize> {
    let model = Model::new(weather);
    run(&model.clock, async {
        model.domains.create("dom").await.unwrap();
        let mut lags = Vec::new();
        for value in 0..200 {
            model
                .domains
                .put("dom", &counter(value), None)
                .await
                .unwrap();
            assert_eq!(read(&model, Reading::Strong).await, Some(value));
            let seen = read(&model, Reading::Eventual).await;
            lags.push(seen.map_or(value + 1, |seen| value - seen));
        }
        lags
    })
}

#[test]
fn an_eventual_read_is_behind_by_as_many_writes_as_the_weather_says() {
    let weather = Weather {
        seed: 7,
        lag: 4,
        ..Weather::default()
    };
    let lags = lags(weather);
    assert_eq!(lags.iter().max(), Some(&4));
    assert_eq!(lags.iter().min(), Some(&0));
}

#[test]
fn without_lag_an_eventual_read_sees_all() {
    assert!(lags(Weather::default()).iter().all(|lag| *lag == 0));
}

#[test]
fn the_same_seed_gives_the_same_reads() {
    let weather = |seed| Weather {
        seed,
        lag: 4,
        ..Weather::default()
    };
    assert_eq!(lags(weather(1)), lags(weather(1)));
    assert_ne!(lags(weather(1)), lags(weather(2)));
}

#[test]
fn a_token_that_is_none_is_refused() {
    let model = Model::new(Weather::default());
    run(&model.clock, model.domains.create("dom")).unwrap();
    for token in ["x", "0", "00", "\u{e9}a"] {
        let page = model
            .domains
            .select("select * from dom", Some(token), Reading::Strong);
        assert_eq!(
            run(&model.clock, page).unwrap_err().kind,
            ErrorKind::Invalid,
            "{token}"
        );
    }
}
