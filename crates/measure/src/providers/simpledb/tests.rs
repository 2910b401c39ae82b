//! Names of levels.

use super::*;

#[test]
fn levels_are_those_of_simpledb_and_of_fader() {
    let mut session = Session::default();
    let mut shown = |text: &str| {
        let level = Level::parse(text).unwrap();
        let demand = level.demand(Ask::Any, &mut session);
        (demand.consistent, demand.level, demand.session.is_some())
    };
    let default = level::Level::Default;
    assert_eq!(shown("strong"), (true, default, false));
    assert_eq!(shown("eventual"), (false, default, false));
    assert_eq!(shown("barrier"), (false, level::Level::Barrier, false));
    let quorum = level::Level::Eventual {
        r: 2,
        w: 2,
        sloppy: false,
    };
    assert_eq!(shown("eventual; r=2; w=2"), (false, quorum, false));
    let eventual = level::Level::EVENTUAL;
    assert_eq!(
        shown("eventual; bound=500ms; session"),
        (false, eventual, true)
    );
    let strong = Level::parse("strong").unwrap();
    let read = strong.demand(Ask::FaderToRead, &mut session);
    assert_eq!((read.consistent, read.level), (false, level::Level::Strong));
    let bounded = Level::parse("eventual; bound=500ms").unwrap();
    let [read, write] = [Ask::FaderToRead, Ask::FaderToWrite]
        .map(|ask| bounded.demand(ask, &mut Session::default()).bound);
    assert_eq!((read, write), (Some(level::Bound::Millis(500)), None));
    for wrong in ["", "fast", "eventual; q=2", "strong=3", "session"] {
        assert!(InSimpleDb::check_level(wrong).is_err(), "{wrong}");
    }
}
