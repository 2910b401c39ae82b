//! Which body is cut, in tokio's own time.

use super::*;

/// It shows ROOM-1.
#[tokio::test(start_paused = true)]
async fn memory_is_taken_as_bytes_come_and_given_back() {
    let room = Room::new(100);
    let (one, two) = (room.enter(), room.enter());
    assert_eq!(one.take(60).await, Ok(()));
    assert_eq!(two.take(40).await, Ok(()));
    drop(one);
    assert_eq!(two.take(60).await, Ok(()));
    drop(two);
    assert_eq!(room.state.lock().used, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_alone_has_what_it_needs() {
    let room = Room::new(100);
    let one = room.enter();
    assert_eq!(one.take(60).await, Ok(()));
    assert_eq!(one.take(600).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_is_cut_for_a_moving_one() {
    let room = Room::new(100);
    let (stands, moves) = (room.enter(), room.enter());
    stands.take(50).await.expect("there is room");
    tokio::time::advance(YOUNG).await;
    moves.take(1).await.expect("there is room");
    let (cut, taken) = tokio::join!(
        async {
            let cut = stands.cut().await;
            drop(stands);
            cut
        },
        moves.take(90)
    );
    assert_eq!((cut, taken), (Cut, Ok(())));
}

/// It shows ROOM-2.
#[tokio::test(start_paused = true)]
async fn whole_and_young_bodies_are_waited_for() {
    let room = Room::new(100);
    let (whole, young) = (room.enter(), room.enter());
    whole.take(50).await.expect("there is room");
    whole.is_whole();
    young.take(40).await.expect("there is room");
    let begun = Instant::now();
    let next = room.enter();
    let (cut, taken) = tokio::join!(
        async {
            let cut = young.cut().await;
            drop(young);
            cut
        },
        next.take(50)
    );
    assert_eq!((cut, taken), (Cut, Ok(())));
    // In the time of tokio's test clock.
    assert!(YOUNG <= begun.elapsed());
    assert!(!whole.cut.is_given());
}

#[tokio::test(start_paused = true)]
async fn the_last_to_move_is_cut_itself_if_it_is_the_slowest() {
    let room = Room::new(100);
    let (fast, slow) = (room.enter(), room.enter());
    tokio::time::advance(YOUNG).await;
    fast.take(80).await.expect("there is room");
    slow.take(10).await.expect("there is room");
    assert_eq!(slow.take(20).await, Err(Cut));
}

#[test]
fn pace_forgets() {
    let start = Instant::now();
    let mut pace = Pace::new(start);
    assert_eq!(pace.progress(start), None);
    pace.move_on(1 << 20, start);
    let later = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(pace.progress(later(1)), Some((false, 1 << 19)));
    pace.move_on(1, later(30));
    assert_eq!(pace.progress(later(30)), Some((true, 1)));
    assert_eq!(pace.recent(later(300)), 0);
}
