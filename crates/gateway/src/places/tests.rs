//! Who leaves when places run out, in tokio's own time.

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn places(max: usize, of_address: usize) -> Arc<Places> {
    Places::new(Numbers {
        max,
        of_address,
        heads_bytes_max: 100,
    })
}

async fn seat(places: &Arc<Places>, address: IpAddr, phase: Phase) -> Seat {
    let (seat, _) = places.enter(address).await;
    seat.progress().enter(phase);
    seat
}

fn is_ended(seat: &Seat) -> bool {
    seat.occupant.is_ended.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn the_longest_silent_stranger_goes_first() {
    let places = places(3, 3);
    let known = seat(&places, HERE, Phase::Rest).await;
    known.served();
    tokio::time::advance(YOUNG).await;
    let older = seat(&places, HERE, Phase::Rest).await;
    tokio::time::advance(YOUNG).await;
    let newer = seat(&places, HERE, Phase::Rest).await;
    let (next, ended) = places.enter(HERE).await;
    assert_eq!((ended, next.is_lobby), (1, false));
    assert!(is_ended(&older) && !is_ended(&newer) && !is_ended(&known));
    // Its task goes later: its place is free already, and not freed twice.
    drop(older);
    assert_eq!(places.state.lock().taken.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_working_connection_stays_and_the_next_one_waits() {
    let places = places(2, 2);
    let polls = [
        seat(&places, HERE, Phase::Work).await,
        seat(&places, HERE, Phase::Work).await,
    ];
    tokio::time::advance(Duration::from_secs(20)).await;
    let (next, ended) = places.enter(HERE).await;
    assert_eq!((ended, next.is_lobby), (0, true));
    assert!(!polls.iter().any(is_ended));
    // A lobby that is full lets the longest go.
    let mut others = Vec::new();
    for _ in 0..LOBBY_MAX {
        others.push(places.enter(HERE).await.0);
    }
    assert!(is_ended(&next) && !others.iter().any(is_ended));
    drop(polls);
    assert!(!places.enter(HERE).await.0.is_lobby);
    drop((next, others));
    assert!(places.state.lock().lobby.is_empty());
}

/// It shows CONN-4.
#[tokio::test(start_paused = true)]
async fn an_address_has_its_share() {
    let places = places(4, 2);
    let attacker = [
        seat(&places, HERE, Phase::Work).await,
        seat(&places, HERE, Phase::Work).await,
    ];
    assert!(places.enter(HERE).await.0.is_lobby);
    let other = seat(&places, THERE, Phase::Work).await;
    assert!(!other.is_lobby);
    drop(attacker);
    assert_eq!(places.state.lock().of_address.len(), 1);
    let six = |last: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    assert_eq!(block(six(1)), block(six(2)));
    let mapped = IpAddr::V6(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    assert_eq!(block(mapped), HERE);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_has_a_moment_to_begin() {
    for phase in [Phase::Rest, Phase::Head] {
        let places = places(2, 2);
        let known = seat(&places, HERE, Phase::Rest).await;
        known.served();
        let young = seat(&places, HERE, phase).await;
        let begun = Instant::now();
        let (next, ended) = places.enter(HERE).await;
        assert_eq!((ended, next.is_lobby), (1, false));
        assert!(is_ended(&young) && !is_ended(&known));
        // In the time of tokio's test clock.
        assert!(YOUNG <= begun.elapsed());
    }
}

/// It shows CONN-5.
#[tokio::test(start_paused = true)]
async fn the_oldest_head_goes_when_heads_are_too_much() {
    let places = places(9, 9);
    let older = seat(&places, HERE, Phase::Head).await;
    older.read(HEAD_BYTES_FREE + 60);
    tokio::time::advance(YOUNG).await;
    let newer = seat(&places, HERE, Phase::Head).await;
    newer.read(HEAD_BYTES_FREE);
    newer.read(40);
    let small = seat(&places, HERE, Phase::Head).await;
    small.read(HEAD_BYTES_FREE);
    assert!(!is_ended(&older));
    newer.read(1);
    assert!(is_ended(&older) && !is_ended(&newer) && !is_ended(&small));
    assert_eq!(places.head_bytes.load(Ordering::Relaxed), 41);
    newer.head_is_whole();
    newer.progress().enter(Phase::Body);
    newer.read(1000);
    drop(older);
    assert_eq!(places.head_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn ranks() {
    let (young, old) = (Duration::ZERO, YOUNG);
    assert_eq!(rank(Phase::Rest, young, false), Some(Rank::Young));
    assert_eq!(rank(Phase::Rest, old, false), Some(Rank::SilentStranger));
    assert_eq!(rank(Phase::Head, young, false), Some(Rank::Young));
    assert_eq!(rank(Phase::Body, old, false), Some(Rank::SlowStranger));
    assert_eq!(rank(Phase::Rest, young, true), Some(Rank::Resting));
    assert_eq!(rank(Phase::Body, old, true), None);
    assert_eq!(rank(Phase::Work, old, false), None);
}
