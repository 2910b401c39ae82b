//! The generator against a floor in the same process: what it sends, logs and refuses to count.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fader_client::{Credentials, SignatureVersion, Signer};
use fader_history::Outcome;
use fader_history::object::Log;
use fader_measure::{
    Arrivals, Constant, DIGITS, ERRORS_MAX, Floor, Items, Load, Plan, Put, Ran, Rate, RunError,
    Schedule, Starts, Summary, Target, Until, acknowledged, run, serve_floor,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const BYTES: usize = 300;

fn start(runtime: &Runtime) -> Target {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(serve_floor(
        listener,
        Floor::new(BYTES, [("content-type", "text/xml")]),
    ));
    target(address, SignatureVersion::V2)
}

fn target(address: SocketAddr, version: SignatureVersion) -> Target {
    let credentials = Credentials::new("AKIDEXAMPLE", "secret");
    let signer = Signer::new(&credentials, version, &address.to_string());
    Target {
        address,
        signer: Arc::new(signer),
    }
}

fn workload(bytes: usize) -> Arc<Constant> {
    let items = Items {
        domain: String::from("dom"),
        count: 1000,
        attributes: 2,
        value_bytes: DIGITS,
        groups: 0,
    };
    let workload = Arc::new(Put {
        items: Arc::new(items),
        stamp_first: 0,
    });
    Arc::new(Constant { workload, bytes })
}

fn plan(load: Load, until: Until) -> Plan {
    Plan {
        name: String::from("test"),
        load,
        until,
        connections: 5,
        threads: 2,
        errors_max: Some(ERRORS_MAX),
        levels: Vec::new(),
    }
}

/// Whether every operation from the first to the last was done exactly once.
fn is_complete(log: &Log) -> bool {
    let values: BTreeSet<u64> = acknowledged(log).map(|(_, stamp)| stamp).collect();
    values.len() == log.operations.len() && values.last() == Some(&(values.len() as u64 - 1))
}

/// It shows LOOP-1 and LOOP-3.
#[test]
fn a_closed_loop_does_each_operation_once() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let plan = plan(Load::Closed, Until::Operations(500));
    let Ran { log, elapsed, .. } = run(&target, &plan, workload(BYTES), |_| {}).unwrap();
    assert_eq!(log.operations.len(), 500);
    assert!(is_complete(&log));
    for operation in &log.operations {
        assert!(operation.intended <= operation.called);
        assert!(operation.called < operation.returned());
        assert!(u128::from(operation.returned().nanos) <= elapsed.as_nanos());
    }
    // One operation at a time on each connection.
    for process in 0..5 {
        let of_process = log
            .operations
            .iter()
            .filter(|operation| operation.process == process);
        let of_process: Vec<_> = of_process.collect();
        assert!(!of_process.is_empty());
        assert!(
            of_process
                .windows(2)
                .all(|pair| pair[0].returned() <= pair[1].called)
        );
    }
    let summary = Summary::of(&log, elapsed);
    assert_eq!((summary.done, summary.errors), (500, 0));
}

#[test]
fn an_open_loop_keeps_to_its_schedule() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let starts = Starts::Rate {
        rate: Rate::Constant(5_000.0),
        arrivals: Arrivals::Poisson,
        seed: 9,
    };
    let elapsed = Duration::from_millis(100);
    let plan = plan(Load::Open(starts.clone()), Until::Elapsed(elapsed));
    let log = run(&target, &plan, workload(BYTES), |_| {}).unwrap().log;
    let mut intended: Vec<u64> = log.operations.iter().map(|o| o.intended.nanos).collect();
    intended.sort_unstable();
    let end = elapsed.as_nanos() as u64;
    let expected = Schedule::new(starts).take_while(|time| *time < end);
    assert_eq!(intended, expected.collect::<Vec<_>>());
    assert!(is_complete(&log));
    assert!(
        log.operations
            .iter()
            .all(|operation| operation.intended <= operation.called)
    );
}

#[test]
fn a_closed_loop_ends_in_time() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let elapsed = Duration::from_millis(50);
    let plan = plan(Load::Closed, Until::Elapsed(elapsed));
    let ran = run(&target, &plan, workload(BYTES), |_| {}).unwrap();
    assert_eq!(ran.elapsed, elapsed);
    assert!(!ran.log.operations.is_empty());
}

#[test]
fn a_run_with_errors_is_an_error() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let plan = plan(Load::Closed, Until::Operations(1_000_000));
    let error = run(&target, &plan, workload(BYTES + 1), |_| {}).unwrap_err();
    let RunError::Failed {
        errors,
        operations,
        first,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert!(matches!(first.end, Some((_, Outcome::Unknown))));
    // Given up after the hundredth, while each of the others had at most one under way.
    assert!(
        errors == operations && (100..105).contains(&errors),
        "{errors} of {operations}"
    );
}

#[test]
fn errors_are_data_if_the_plan_says_so() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let plan = Plan {
        errors_max: None,
        ..plan(Load::Closed, Until::Operations(300))
    };
    let ran = run(&target, &plan, workload(BYTES + 1), |_| {}).unwrap();
    let summary = Summary::of(&ran.log, ran.elapsed);
    assert_eq!((summary.done, summary.errors), (0, 300));
}

/// Refuses each request of a connection.
async fn refuse(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let (mut size, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                size = value.trim().parse().unwrap();
            }
        }
        stream.read_exact(&mut vec![0; size]).await?;
        let reply = b"HTTP/1.1 503 No\r\nx-fader-reason: no-member\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(reply).await?;
        stream.flush().await?;
    }
}

#[test]
fn refusals_are_counted_by_their_reasons() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(refuse(stream));
        }
    });
    let strict = plan(Load::Closed, Until::Operations(150));
    let tolerant = Plan {
        errors_max: None,
        ..strict.clone()
    };
    let target = target(address, SignatureVersion::V2);
    let ran = run(&target, &tolerant, workload(BYTES), |_| {}).unwrap();
    assert_eq!(
        ran.refusals,
        BTreeMap::from([("no-member".to_owned(), 150)])
    );
    let error = run(&target, &strict, workload(BYTES), |_| {}).unwrap_err();
    assert!(error.to_string().contains("no-member"), "{error}");
}

#[test]
fn a_server_that_went_away_is_an_error() {
    let runtime = Runtime::new().unwrap();
    let target = start(&runtime);
    let plan = plan(Load::Closed, Until::Operations(u64::MAX));
    let mut runtime = Some(runtime);
    let stop_after_some = |done| {
        if 0 < done
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    };
    let error = run(&target, &plan, workload(BYTES), stop_after_some).unwrap_err();
    let RunError::Failed { first, .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(first.end, Some((_, Outcome::Unknown))));
    // And one that was never there.
    let plan = Plan { threads: 3, ..plan };
    assert!(matches!(
        run(&target, &plan, workload(BYTES), |_| {}),
        Err(RunError::Io(_))
    ));
}
