//! What can go wrong between a member and ZooKeeper, and what must not come of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fader_chain::controller::first;
use fader_chain::{ChainId, Configuration, DiskId, Identity, Incarnation, Report, Version, Wiring};
use fader_node::Secret;
use fader_node::coordinator::{
    ChainCoordinator, Coordinator, CoordinatorError, PingTime, ZooKeeperCoordinator,
    ZooKeeperSettings,
};

use fader_services::ErrorCode;
use fader_zookeeper::{EnsembleClient, EnsembleConfig};

use crate::server::{
    Proxy, Server, Way, cluster, cluster_of, join, join_as, place, record, shared,
};
use crate::{LONG, eventually, open, safe_point, shown, wait};

/// Long enough that a busy machine pings in time.
const SESSION: Duration = Duration::from_secs(3);

fn refusal<T>(result: Result<T, CoordinatorError>) -> String {
    match result {
        Err(CoordinatorError::Refused { context, .. }) => context,
        Err(error) => error.to_string(),
        Ok(_) => "it was done".to_owned(),
    }
}

fn through(place: &ZooKeeperSettings, proxy: &Proxy) -> ZooKeeperSettings {
    ZooKeeperSettings {
        hosts: vec![proxy.address.to_string()],
        ..place.clone()
    }
}

fn is_unavailable(result: &Result<PingTime, CoordinatorError>) -> bool {
    matches!(result, Err(CoordinatorError::Unavailable(_)))
}

/// I24. A mutant that does not set a watch again misses the second change; one that keeps what was
/// read on another connection misses the last.
#[test]
fn what_does_not_change_is_read_once_and_each_change_is_heard() {
    let (place, other) = cluster(shared(), LONG);
    let proxy = Proxy::start(shared());
    let watching = join(&through(&place, &proxy), "n2", "there:2");
    let member = open(&other, 1);
    eventually(&watching, || watching.sessions() == [member]);
    let mut newest = first(&[member], Wiring::Star, Version::OLDEST);
    let publish = |newest: &Configuration| {
        assert_eq!(other.publish(newest.epoch - 1, newest.clone()), Ok(true));
    };
    let hears = |newest: &Configuration| {
        eventually(&watching, || {
            let heard = watching.configuration().unwrap();
            heard.is_some_and(|heard| *heard == *newest)
        });
    };
    for epoch in 1..4 {
        newest.epoch = epoch;
        publish(&newest);
        hears(&newest);
    }
    // Nothing changes: of many looks at sessions one reads nothing else.
    eventually(&watching, || {
        proxy.forget();
        while proxy.count("/sessions/") < 20 {
            std::thread::sleep(Duration::from_millis(10));
        }
        ["/chains/", "/layout"]
            .iter()
            .all(|text| proxy.count(text) == 0)
    });
    proxy.set(Way::Cut);
    newest.epoch = 4;
    publish(&newest);
    eventually(&watching, || !watching.all().is_reachable());
    proxy.set(Way::Open);
    hears(&newest);
}

#[test]
fn a_restarted_server_ends_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 0);
    let address = server.address;
    let (_, coordinator) = cluster(address, LONG);
    let member = open(&coordinator, 1);
    let configuration = first(&[member], Wiring::Star, Version::OLDEST);
    assert_eq!(coordinator.publish(0, configuration.clone()), Ok(true));
    coordinator.report(member, Report::Adopted { epoch: 1 });
    eventually(&coordinator, || coordinator.sessions() == [member]);
    // The report was a ping, too.
    coordinator.ping(member).unwrap();
    drop(server);
    assert!(is_unavailable(&coordinator.ping(member)));
    eventually(&coordinator, || !coordinator.all().is_reachable());
    // What was known stays in force.
    assert_eq!(coordinator.sessions(), [member]);
    let known = coordinator.configuration().unwrap();
    assert_eq!(known.as_deref(), Some(&configuration));
    let _server = Server::start(folder.path(), address.port());
    eventually(&coordinator, || coordinator.ping(member).is_ok());
    eventually(&coordinator, || coordinator.all().is_reachable());
    assert_eq!(coordinator.sessions(), [member]);
    assert!(coordinator.reports().has_adopted(member.node, 1));
    let next = fader_chain::Configuration {
        epoch: 2,
        ..configuration
    };
    assert_eq!(coordinator.publish(1, next), Ok(true));
}

/// A member that is cut off has no session, in the end, and another one when it is back.
fn cut_off(way: Way) {
    let (place, other) = cluster(shared(), SESSION);
    let proxy = Proxy::start(shared());
    let member = join(&through(&place, &proxy), "n2", "there:2");
    let incarnation = open(&member, 2);
    eventually(&other, || other.sessions() == [incarnation]);
    member.ping(incarnation).unwrap();
    proxy.set(way);
    assert!(is_unavailable(&member.ping(incarnation)));
    eventually(&other, || other.sessions().is_empty());
    proxy.set(Way::Open);
    eventually(&member, || {
        member.ping(incarnation) == Err(CoordinatorError::SessionOver)
    });
    member.close(incarnation);
    let next = open(&member, 2);
    assert_eq!(next.node, incarnation.node);
    eventually(&other, || other.sessions() == [next]);
    assert_eq!(other.all().live()[0].address, "there:2");
}

#[test]
fn a_cut_connection_costs_the_session_and_no_more() {
    cut_off(Way::Cut);
}

/// It shows ZKWIRE-2.
#[test]
fn a_silent_connection_is_given_up() {
    cut_off(Way::Silent);
}

/// Pings until it is told to end; its session may not.
fn keep(coordinator: &ChainCoordinator, incarnation: Identity, is_ending: &AtomicBool) {
    while !is_ending.load(Ordering::Relaxed) {
        assert_ne!(
            coordinator.ping(incarnation),
            Err(CoordinatorError::SessionOver)
        );
        wait(coordinator, SESSION / 30);
    }
}

/// ZNODE-10: a ping that reaches the server after its connection was given up changes nothing.
#[test]
fn z10_a_late_ping_erases_no_life() {
    let (place, _) = cluster(shared(), LONG);
    let proxy = Proxy::start(shared());
    let system = join(&through(&place, &proxy), "n2", "there:2");
    let data = system.all().chain(ChainId(1));
    let first = open(&system, 1);
    system.ping(first).unwrap();
    proxy.set(Way::Held("/sessions/"));
    system.report(first, Report::Adopted { epoch: 1 });
    assert!(is_unavailable(&system.ping(first)));
    proxy.set(Way::Open);
    // The second incarnation begins on another connection, and pings.
    let second = open(&data, 2);
    data.ping(second).unwrap();
    proxy.deliver();
    let standing = ZooKeeperCoordinator::look(&place).unwrap();
    let its: Vec<_> = standing.live.iter().map(|it| &it.members).collect();
    let incarnations = vec![(ChainId::SYSTEM, first), (ChainId(1), second)];
    assert_eq!(
        its,
        [&incarnations],
        "a late ping erased an incarnation that has a lease"
    );
    // It goes on, in the same session.
    data.ping(second).unwrap();
    system.ping(first).unwrap();
}

/// ZNODE-10: a session that ended stays over when its last writes come late.
#[test]
fn z10_a_late_ping_revives_no_session() {
    let (place, other) = cluster(shared(), SESSION);
    let proxy = Proxy::start(shared());
    let member = join(&through(&place, &proxy), "n2", "there:2");
    let incarnation = open(&member, 2);
    eventually(&other, || other.sessions() == [incarnation]);
    proxy.set(Way::Held("/sessions/"));
    assert!(is_unavailable(&member.ping(incarnation)));
    eventually(&other, || other.sessions().is_empty());
    proxy.set(Way::Open);
    proxy.deliver();
    eventually(&member, || {
        member.ping(incarnation) == Err(CoordinatorError::SessionOver)
    });
    assert!(other.sessions().is_empty());
}

/// A ping waits for no request of another kind. It shows ZNODE-11.
#[test]
fn a_ping_passes_by_a_request_that_is_not_answered() {
    let (place, _) = cluster(shared(), LONG);
    let proxy = Proxy::start(shared());
    let member = join(&through(&place, &proxy), "n2", "there:2");
    let incarnation = open(&member, 2);
    member.ping(incarnation).unwrap();
    let next = first(&[incarnation], Wiring::Star, Version::OLDEST);
    // A ping may be slow where the machine is, but not each time.
    let has_passed = (0..10).any(|_| {
        proxy.set(Way::Held("/chains/0"));
        let held = proxy.held();
        let has_passed = std::thread::scope(|scope| {
            let publishing = scope.spawn(|| member.publish(0, next.clone()));
            eventually(&member, || held < proxy.held());
            member.ping(incarnation).unwrap();
            !publishing.is_finished()
        });
        proxy.set(Way::Open);
        has_passed
    });
    assert!(has_passed, "each ping waited for the other request");
}

#[test]
fn a_process_that_was_absent_takes_no_other_for_dead() {
    let (place, member) = cluster(shared(), SESSION);
    let proxy = Proxy::start(shared());
    let watcher = join(&through(&place, &proxy), "n2", "there:2");
    let incarnation = open(&member, 1);
    let is_ending = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let pinging = scope.spawn(|| keep(&member, incarnation, &is_ending));
        eventually(&watcher, || watcher.sessions() == [incarnation]);
        for way in [Way::Cut, Way::Open, Way::Silent, Way::Open] {
            proxy.set(way);
            eventually(&watcher, || {
                watcher.all().is_reachable() == (way == Way::Open)
            });
            let until = Instant::now() + SESSION;
            while Instant::now() < until {
                assert_eq!(watcher.sessions(), [incarnation], "{way:?}");
                wait(&watcher, SESSION / 30);
            }
        }
        is_ending.store(true, Ordering::Relaxed);
        pinging.join().unwrap();
    });
    assert_eq!(member.sessions(), [incarnation]);
}

#[test]
fn a_missing_cluster_is_reported() {
    let place = place(shared());
    let joining = |place: &ZooKeeperSettings, name| {
        refusal(ZooKeeperCoordinator::join(place, name, "here:1", Version::NEWEST).map(drop))
    };
    assert!(joining(&place, "n1").contains("fader cluster init"));
    ZooKeeperCoordinator::create(&place, &record(LONG)).unwrap();
    let again = refusal(ZooKeeperCoordinator::create(&place, &record(LONG)));
    assert!(again.contains("already"), "{again}");
    assert!(joining(&place, "n3").contains("members, which are n1, n2"));
    let joined = ZooKeeperCoordinator::join(&place, "n1", "here:1", Version::NEWEST);
    drop(joined.unwrap());
    let within = ZooKeeperSettings {
        root: format!("{}/disks", place.root),
        ..place.clone()
    };
    assert!(joining(&within, "n1").contains("is no record of a cluster"));
    let nowhere = ZooKeeperSettings {
        root: "fader/".to_owned(),
        ..place
    };
    assert!(joining(&nowhere, "n1").contains("no place"));
}

/// What was read last of it stays in force, and all else goes on.
#[test]
fn a_znode_that_someone_edited_or_removed_stops_nothing_else() {
    let (place, system) = cluster(shared(), LONG);
    let data = join(&place, "n2", "there:2").all().chain(ChainId(1));
    let heard = system.all().chain(ChainId(1));
    let member = open(&system, 1);
    let of = |epoch| Configuration {
        epoch,
        ..first(&[member], Wiring::Star, Version::OLDEST)
    };
    let hears = |chain: &ChainCoordinator, epoch| {
        eventually(chain, || {
            let newest = chain.configuration().unwrap();
            newest.is_some_and(|newest| newest.epoch == epoch)
        });
    };
    assert_eq!(system.publish(0, of(1)), Ok(true));
    hears(&data.all().chain(ChainId(0)), 1);
    let (mut epoch, mut by_hand) = (0, by_hand(&place));
    for path in ["/chains/0", "/layout", ""] {
        let path = format!("{}{path}", place.root);
        let was = by_hand.get(&path, false).unwrap();
        if was.is_some() {
            by_hand.set(&path, b"by hand", -1).unwrap();
        } else {
            by_hand.create(&path, b"by hand").unwrap();
        }
        epoch += 1;
        assert_eq!(data.publish(epoch - 1, of(epoch)), Ok(true));
        hears(&heard, epoch);
        assert!(heard.is_reachable());
        hears(&system, 1);
        if path.ends_with("/chains/0") {
            let code = system.publish(1, of(2)).unwrap_err().code();
            assert_eq!(code, ErrorCode::CoordinatorDamaged);
            let looked = ZooKeeperCoordinator::look(&place).unwrap_err();
            assert_eq!(looked.code(), ErrorCode::CoordinatorDamaged);
            by_hand.delete(&path, -1).unwrap();
            epoch += 1;
            assert_eq!(data.publish(epoch - 1, of(epoch)), Ok(true));
            hears(&heard, epoch);
            hears(&system, 1);
            by_hand.create(&path, &was.unwrap().data).unwrap();
        } else if let Some(was) = was {
            let joined = ZooKeeperCoordinator::join(&place, "n1", "here:1", Version::NEWEST);
            let code = joined.map(drop).unwrap_err().code();
            assert_eq!(code, ErrorCode::CoordinatorDamaged);
            by_hand.set(&path, &was.data, -1).unwrap();
        } else {
            by_hand.delete(&path, -1).unwrap();
        }
    }
}

/// What is known stays, and its process writes it anew.
#[test]
fn a_session_that_someone_edited_is_written_anew_by_its_process() {
    let (place, system) = cluster(shared(), LONG);
    let other = join(&place, "n2", "there:2");
    let member = open(&system, 1);
    let second = open(&other, 2);
    for watching in [&system, &other] {
        eventually(watching, || watching.sessions() == [member, second]);
    }
    let mut by_hand = by_hand(&place);
    let folder = format!("{}/sessions", place.root);
    let names = by_hand.children(&folder, false).unwrap();
    let own = names.iter().find(|name| name.starts_with("1-")).unwrap();
    let path = format!("{folder}/{own}");
    by_hand.set(&path, b"by hand", -1).unwrap();
    eventually(&other, || !other.is_reachable());
    assert_eq!(other.sessions(), [member, second]);
    let looked = ZooKeeperCoordinator::look(&place).unwrap_err();
    assert_eq!(looked.code(), ErrorCode::CoordinatorDamaged);
    assert!(looked.to_string().contains(&path), "{looked}");
    eventually(&system, || system.ping(member).is_ok());
    for watching in [&system, &other] {
        eventually(watching, || watching.is_reachable());
        assert_eq!(watching.sessions(), [member, second]);
    }
}

/// A chroot that is gone: what is known stays, no lease is given, and it is told.
#[test]
fn a_cluster_that_someone_removed_is_told() {
    let (place, coordinator) = cluster(shared(), LONG);
    let member = open(&coordinator, 1);
    coordinator.ping(member).unwrap();
    let mut by_hand = by_hand(&place);
    remove(&mut by_hand, &place.root);
    eventually(&coordinator, || !coordinator.is_reachable());
    assert!(coordinator.ping(member).is_err());
    assert_eq!(coordinator.all().layout().sites.len(), 2);
    let joined = ZooKeeperCoordinator::join(&place, "n1", "here:1", Version::NEWEST);
    assert_eq!(joined.map(drop).unwrap_err().code(), ErrorCode::NotFound);
}

/// An operator's own client.
fn by_hand(place: &ZooKeeperSettings) -> EnsembleClient {
    EnsembleClient::new(Arc::new(EnsembleConfig {
        hosts: place.hosts.clone(),
        credentials: None,
        tls: None,
        patience: Duration::from_secs(60),
    }))
}

/// Removes a znode and all below it. One that a process makes again meanwhile is removed, too.
fn remove(by_hand: &mut EnsembleClient, path: &str) {
    while by_hand.get(path, false).unwrap().is_some() {
        for name in by_hand.children(path, false).unwrap_or_default() {
            remove(by_hand, &format!("{path}/{name}"));
        }
        // Refused while it has children.
        drop(by_hand.delete(path, -1));
    }
}

#[test]
fn a_folder_of_another_node_or_cluster_is_told() {
    let (place, n1) = cluster(shared(), LONG);
    let n2 = join(&place, "n2", "there:2");
    let member = open(&n1, 1);
    let other = refusal(n2.open(DiskId(1), Incarnation(5), shown(0, 0)));
    assert!(other.contains("that of n1, not of n2"), "{other}");
    assert_eq!(
        n1.publish(0, first(&[member], Wiring::Star, Version::OLDEST)),
        Ok(true)
    );
    let other = refusal(n2.open(DiskId(2), Incarnation(5), shown(1, 0)));
    assert!(other.contains("a folder of another cluster"), "{other}");
    let first = n1.all().chain(ChainId(1));
    let other = refusal(first.open(DiskId(1), Incarnation(5), shown(0, 0)));
    assert!(
        other.contains("of chain 0, not of a member of chain 1"),
        "{other}"
    );
    let other = refusal(n1.all().enter(DiskId(1)));
    assert!(other.contains("of chain 0, not of a node"), "{other}");
}

#[test]
fn z7_one_session_has_the_lives_of_all_chains() {
    let (place, system) = cluster(shared(), SESSION);
    let data = system.all().chain(ChainId(1));
    let other = join(&place, "n2", "there:2");
    let (incarnation, second) = (open(&system, 1), open(&data, 2));
    let others = other.all().chain(ChainId(1));
    eventually(&other, || {
        other.sessions() == [incarnation] && others.sessions() == [second]
    });
    assert_eq!(other.all().live().len(), 1);
    // What one pings keeps both, and what one reports is of its chain.
    let end = Instant::now() + 2 * SESSION;
    while Instant::now() < end {
        data.ping(second).unwrap();
        wait(&data, SESSION / 30);
        assert_eq!(others.sessions(), [second]);
        assert_eq!(other.sessions(), [incarnation]);
    }
    data.report(second, Report::Adopted { epoch: 1 });
    eventually(&others, || others.reports().has_adopted(second.node, 1));
    assert!(!other.reports().has_adopted(second.node, 1));
    // Each chain has its configurations.
    assert_eq!(
        data.publish(0, first(&[second], Wiring::Chain, Version::OLDEST)),
        Ok(true)
    );
    eventually(&others, || others.configuration().unwrap().is_some());
    assert_eq!(other.configuration(), Ok(None));
    // One incarnation ends, and the other goes on.
    system.close(incarnation);
    eventually(&other, || other.sessions().is_empty());
    assert_eq!(others.sessions(), [second]);
    data.ping(second).unwrap();
    assert_eq!(system.ping(incarnation), Err(CoordinatorError::SessionOver));
    // With the session all are over.
    let third = open(&system, 3);
    eventually(&other, || other.sessions() == [third]);
    eventually(&other, || {
        other.sessions().is_empty() && others.sessions().is_empty()
    });
    let pinged = [system.ping(third), data.ping(second)];
    assert!(
        pinged
            .iter()
            .all(|it| *it == Err(CoordinatorError::SessionOver)),
        "{pinged:?}"
    );
    let fourth = open(&data, 4);
    eventually(&others, || others.sessions() == [fourth]);
    assert!(other.sessions().is_empty());
}

/// COORD-5: how far a disk came is known while its process's session lasts, and when others ended
/// it.
#[test]
fn a_killed_processs_report_of_its_disk_is_kept() {
    let (place, other) = cluster_of(Version::NEWEST, shared(), SESSION);
    let start = || {
        let joined = ZooKeeperCoordinator::join(&place, "n2", "there:2", Version::NEWEST).unwrap();
        joined.enter(DiskId(77 << 64)).unwrap();
        Arc::new(joined).chain(ChainId::SYSTEM)
    };
    let killed = start();
    let incarnation = open(&killed, 2);
    let alone = first(&[incarnation], Wiring::Star, Version::NEWEST);
    assert_eq!(killed.publish(0, alone), Ok(true));
    killed.report(incarnation, Report::Adopted { epoch: 1 });
    killed.report(incarnation, safe_point(1, 70));
    killed.ping(incarnation).unwrap();
    drop(killed);
    let again = start();
    let begin = |index| refusal(again.open(incarnation.disk, Incarnation(5), shown(1, index)));
    assert!(begin(69).contains("had entry 1.70"), "its session lasts");
    eventually(&other, || other.sessions().is_empty());
    assert!(
        begin(69).contains("had entry 1.70"),
        "its session was ended"
    );
    assert_eq!(begin(70), "it was done");
}

#[test]
fn z9_the_version_rises_when_all_speak_more() {
    let (place, n1) = cluster(shared(), LONG);
    let raised = || n1.all().raise_version().unwrap();
    open(&n1, 1);
    eventually(&n1, || n1.sessions().len() == 1);
    assert_eq!(raised(), None, "n2 is missing");
    let old = join_as(Version::OLDEST, &place, "n2", "there:2");
    let incarnation = open(&old, 2);
    eventually(&n1, || n1.sessions().len() == 2);
    assert_eq!(raised(), None, "n2 speaks no more");
    old.close(incarnation);
    eventually(&n1, || n1.sessions().len() == 1);
    let new = join(&place, "n2", "there:2");
    open(&new, 3);
    eventually(&n1, || n1.sessions().len() == 2);
    assert_eq!(n1.version(), Version::OLDEST);
    assert_eq!(raised(), Some(Version::NEWEST));
    assert_eq!(n1.version(), Version::NEWEST);
    assert_eq!(raised(), None, "it is");
    eventually(&new, || new.version() == Version::NEWEST);
    // Of two that see it one raises it.
    assert_eq!(new.all().raise_version().unwrap(), None);
    assert_eq!(n1.sessions().len(), 2);
}

#[test]
fn z9_a_node_that_does_not_support_the_version_is_none() {
    let (place, n1) = cluster(shared(), LONG);
    let old = join_as(Version::OLDEST, &place, "n2", "there:2");
    let new = join(&place, "n2", "there:2");
    let (mine, its) = (open(&n1, 1), open(&new, 3));
    eventually(&n1, || n1.sessions() == [mine, its]);
    assert_eq!(n1.all().raise_version().unwrap(), Some(Version::NEWEST));
    // It had begun before the version rose, and has its session now.
    open(&old, 2);
    eventually(&old, || !old.all().is_reachable());
    let late = open(&new, 4);
    eventually(&n1, || n1.sessions() == [mine, its, late]);
    assert_eq!(n1.all().live().len(), 2);
    assert_eq!(old.version(), Version::OLDEST);
    let joined = ZooKeeperCoordinator::join(&place, "n2", "there:2", Version::OLDEST);
    let why = refusal(joined.map(drop));
    let (newest, oldest) = (Version::NEWEST, Version::OLDEST);
    let told = format!("is of version {newest}, but this process speaks {oldest} at most");
    assert!(why.contains(&told), "{why}");
}

#[test]
fn credentials_keep_others_out() {
    let place = ZooKeeperSettings {
        credentials: Some(Secret::new("fader:a secret".to_owned())),
        root: format!("{}-of-fader", place(shared()).root),
        ..place(shared())
    };
    ZooKeeperCoordinator::create(&place, &record(LONG)).unwrap();
    let inside = join(&place, "n1", "here:1");
    open(&inside, 1);
    let without = ZooKeeperSettings {
        credentials: None,
        ..place
    };
    let kept_out =
        refusal(ZooKeeperCoordinator::join(&without, "n1", "here:1", Version::NEWEST).map(drop));
    assert!(kept_out.contains("credentials"), "{kept_out}");
}
