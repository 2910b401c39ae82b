//! Who sends the requests: Fader's client with its windows, or threads that back off.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fader_client::{Client, Credentials, Error, ErrorKind, Http, Pacing, Response, Settings};
use fader_window::Rule;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The article's opponent.
pub const THREADS: u32 = 34;
/// Attempts of a thread's request, in all.
const ATTEMPTS: u32 = 5;
/// The same of a request on which all others wait: a run that loses one says nothing.
const ATTEMPTS_OF_ASKER: u32 = 50;
/// Its delays: doubled with each attempt, at random below that. The seed names the 400 ms only.
const DELAY: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_millis(400);
/// From asking to the answer, waits counted in: a slow service has a thousand requests before it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Under a congestion window for each address and class of operations.
    Window(Rule),
    /// By so many threads, each with one request at a time, backing off up to 400 ms.
    Threads(u32),
}

/// A client of one service at one or more addresses, which are used in turn.
pub struct Sender {
    way: ClientKind,
    http: Http,
    clients: Vec<Client>,
    turn: AtomicUsize,
    threads: Semaphore,
    in_flight: AtomicUsize,
    refused: AtomicU64,
    samples: Mutex<Vec<u32>>,
    target: String,
}

impl Sender {
    /// A client of `endpoints`, which runs where it is used, on one thread.
    ///
    /// # Errors
    /// When an endpoint is none.
    pub fn new(
        way: ClientKind,
        endpoints: &[String],
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> Result<Sender, Error> {
        let (rule, pace, threads) = match way {
            ClientKind::Window(rule) => (rule, Pacing::Window, 1),
            ClientKind::Threads(count) => (Rule::default(), Pacing::Bare, count),
        };
        let http = Http::here(fader_window::Settings {
            rule,
            seed: rand::random(),
            ..fader_window::Settings::default()
        });
        let client = |endpoint: &String| {
            let settings = Settings {
                pace,
                timeout: TIMEOUT,
                ..settings.clone()
            };
            Client::on(http.clone(), endpoint, credentials.cloned(), settings)
        };
        Ok(Sender {
            way,
            clients: endpoints.iter().map(client).collect::<Result<_, _>>()?,
            http,
            turn: AtomicUsize::new(0),
            threads: Semaphore::new(threads as usize),
            in_flight: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            samples: Mutex::default(),
            target: endpoints.join(" "),
        })
    }

    /// What a recording calls it.
    pub(super) fn name(&self) -> String {
        match self.way {
            ClientKind::Window(Rule::Adaptive) => "Fader's client".to_owned(),
            ClientKind::Window(Rule::Aimd) => "Fader's client with the article's rule".to_owned(),
            ClientKind::Threads(count) => format!("{count} threads that back off"),
        }
    }

    /// The addresses that it asks.
    pub(super) fn target(&self) -> String {
        self.target.clone()
    }

    pub(super) fn addresses(&self) -> usize {
        self.clients.len()
    }

    /// Sends one request until it is answered, as often as its way allows.
    pub(super) async fn call(
        &self,
        action: &str,
        parameters: &[(String, String)],
    ) -> Result<Response, Error> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let client = &self.clients[turn % self.clients.len()];
        if let ClientKind::Window(_) = self.way {
            return client.call(action, parameters).await;
        }
        // Who asks for the work does none of it.
        let (_thread, attempts_max) = match action {
            "PutAttributes" | "GetAttributes" | "DeleteAttributes" => {
                let thread = self.threads.acquire().await.expect("it is never closed");
                (Some(thread), ATTEMPTS)
            }
            _ => (None, ATTEMPTS_OF_ASKER),
        };
        let mut attempts = 0;
        loop {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
            let answer = client.call(action, parameters).await;
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            attempts += 1;
            let Err(error) = &answer else {
                return answer;
            };
            if is_overload(error) {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            if attempts_max <= attempts || is_final(error) {
                return answer;
            }
            let most = (DELAY * (1 << attempts.min(8))).min(DELAY_MAX);
            sleep(most.mul_f64(rand::random())).await;
        }
    }

    /// Attempts that were refused for overload.
    pub(super) fn refused(&self) -> u64 {
        let windows = self.http.windows();
        let refused = windows.iter().map(|(_, state)| state.counts.overload);
        refused.sum::<u64>() + self.refused.load(Ordering::Relaxed)
    }

    /// Notes what is in flight now.
    pub(super) fn sample(&self) {
        let windows = self.http.windows();
        let in_windows: u32 = windows.iter().map(|(_, state)| state.in_flight).sum();
        let in_flight = in_windows + self.in_flight.load(Ordering::Relaxed) as u32;
        self.samples.lock().push(in_flight);
    }

    /// What was noted: what was in flight at the end of each step.
    pub(super) fn samples(&self) -> Vec<u32> {
        self.samples.lock().iter().skip(1).copied().collect()
    }
}

fn is_overload(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Refused { status: 503, .. })
}

/// Whether asking again makes no sense.
fn is_final(error: &Error) -> bool {
    match &error.kind {
        ErrorKind::Refused { status, .. } => *status < 500,
        ErrorKind::Invalid | ErrorKind::Malformed => true,
        _ => false,
    }
}
