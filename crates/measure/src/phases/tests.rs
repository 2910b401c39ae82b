//! The questions find what the article's found; answers are judged; recordings are told and drawn;
//! who is refused asks again.

use fader_client::Settings;
use fader_history::object::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::data::{Data, Question};
use super::recording::ArticlePhase;
use super::*;

#[test]
fn the_seeds_questions_find_what_they_found() {
    let data = Data::new(10_000);
    let found = Question::ALL.map(|question| data.matches(question));
    assert_eq!(found, [10_000, 6_971, 9_900]);
    assert_eq!(
        data.expression(Question::One, "d"),
        "select itemName() from `d` where rising < '00006971' limit 250"
    );
    assert_eq!(
        data.expression(Question::Both, "d"),
        "select itemName() from `d` where rising < '00004950' or falling < '00004950' limit 250"
    );
    // The conditions, told of the data as they are written.
    let below = |item: u32| data.attributes(item)[1].1.as_str() < "00004950";
    let above = |item: u32| data.attributes(item)[0].1.as_str() < "00004950";
    assert_eq!(
        (0..10_000).filter(|it| below(*it) || above(*it)).count(),
        9_900
    );
}

#[test]
fn an_answer_that_is_not_what_was_put_is_wrong() {
    let data = Data::new(100);
    let got = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    };
    let both = got(&[("falling", "00000092"), ("rising", "00000007")]);
    let right = |question, name: &str, got: &[_]| data.is_right(question, name, got);
    assert!(right(Question::Both, "item-00000007", &both));
    assert!(right(Question::All, "item-00000007", &both[1..]));
    assert!(right(Question::One, "item-00000007", &both[..1]));
    assert!(!right(Question::Both, "item-00000008", &both));
    assert!(!right(Question::All, "item-00000007", &both));
    assert!(!right(Question::All, "item-00000007", &[]));
    assert!(!right(Question::Both, "item-00000100", &both));
    assert!(!right(Question::Both, "somebody-else", &both));
}

fn recording() -> Recording {
    let phase = |(index, seed): (usize, &ArticlePhase)| Phase {
        name: seed.name.to_owned(),
        start_s: index as f64,
        end_s: index as f64 + 1.0,
        answered: 200,
        refused: u64::from(index == 4) * 50,
        given_up: 0,
        unexpected: 0,
    };
    Recording {
        client: "Fader's client".to_owned(),
        addresses: 1,
        items: 200,
        step_s: 0.5,
        served: vec![100; 10],
        connections: (0..10).collect(),
        phases: SEED.iter().enumerate().map(phase).collect(),
    }
}

/// A request that ended at some milliseconds.
fn request(at_ms: u64, outcome: Outcome) -> Operation {
    let moment = |ms| Moment::at(ms * 1_000_000);
    Operation {
        process: 0,
        session: None,
        endpoint: "".into(),
        name: None,
        attempt: 1,
        level: "".into(),
        intended: moment(0),
        called: moment(0),
        action: Request {
            key: "k".into(),
            verb: Verb::Read,
        },
        end: Some((moment(at_ms), outcome)),
        price: None,
    }
}

#[test]
fn a_recording_comes_from_the_log() {
    let done = || Outcome::Done(Reply::default());
    let log = Log {
        operations: vec![
            request(0, done()),
            request(99, done()),
            request(100, Outcome::Unknown),
            request(150, done()),
            request(301, done()),
        ],
        ..Log::default()
    };
    let ms = Duration::from_millis;
    assert_eq!(recording::served(&log, ms(100), 3), [2, 1, 0]);
    let lap = Lap {
        name: "put",
        start: ms(90),
        end: ms(300),
        refused: 7,
        unexpected: 1,
    };
    let phase = Phase::of(&lap, &log);
    let counts = (
        phase.answered,
        phase.given_up,
        phase.refused,
        phase.unexpected,
    );
    assert_eq!(counts, (2, 1, 7, 1));
    assert_eq!((phase.start_s, phase.end_s), (0.09, 0.3));
}

#[test]
fn a_recording_is_told_beside_the_seed() {
    let recording = recording();
    let table = recording.table();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[2],
        [
            "put", "200", "1.0", "200", "0.00", "0", "0", "0.5", "120", "s,", "50-100", "a",
            "second"
        ]
    );
    assert_eq!(lines[6][1..6], ["200", "1.0", "200", "20.00", "0"]);
    assert!(recording.is_right());
    for spoil in [
        |phase: &mut Phase| phase.given_up = 1,
        |phase: &mut Phase| phase.unexpected = 1,
    ] {
        let mut spoilt = recording.clone();
        spoil(&mut spoilt.phases[3]);
        assert!(!spoilt.is_right());
    }
}

#[test]
fn a_recording_is_drawn_in_the_seeds_colours() {
    let drawn = chart(&recording());
    let lines: Vec<&str> = drawn
        .lines()
        .filter(|line| line.contains("<polyline"))
        .collect();
    assert!(lines[0].contains("stroke=\"#009e73\"") && lines[1].contains("stroke=\"#d5301e\""));
    // Ten steps of half a second at 200 a second: a level line of ten points.
    let points = lines[0]
        .split("points=\"")
        .nth(1)
        .unwrap()
        .trim_end_matches("\"/>");
    let heights: Vec<&str> = points
        .split(' ')
        .map(|it| it.split_once(',').unwrap().1)
        .collect();
    assert_eq!(heights.len(), 10);
    assert!(heights.iter().all(|height| *height == heights[0]));
    assert!(drawn.contains(">requests a second<") && drawn.contains(">connections<"));
}

const BUSY: &str = "<Response><Errors><Error><Code>ServiceUnavailable</Code>\
                    <Message>busy</Message></Error></Errors></Response>";

/// Refuses so many requests, and answers the next.
async fn refuse(listener: TcpListener, count: u32) {
    for number in 0..=count {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
        let (status, body) = match number == count {
            true => ("200 OK", "<Response/>"),
            false => ("503 Busy", BUSY),
        };
        let length = body.len();
        let reply = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(reply.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_thread_gives_up_what_is_refused_five_times_and_the_asker_does_not() {
    for (action, is_answered) in [("Select", true), ("PutAttributes", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let service = tokio::spawn(refuse(listener, 6));
        let way = ClientKind::Threads(2);
        let sender = Sender::new(way, &[endpoint], None, &Settings::default()).unwrap();
        assert_eq!(sender.call(action, &[]).await.is_ok(), is_answered);
        assert_eq!(sender.refused(), if is_answered { 6 } else { 5 });
        service.abort();
    }
}
