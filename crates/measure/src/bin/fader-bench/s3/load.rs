//! Load of objects on servers that run already: what `bench s3 --only join` is driven by.
//!
//! Prints one line of JSON: operations a second, by kind, and how many failed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use fader_client::{Error, ErrorKind, S3, S3Request};
use hyper::Method;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{BUCKET, LARGE_BYTES, SMALL_BYTES, all, content, large_key, small};
use crate::drive;

/// Of so many operations of a client the last is a get of 8 MiB.
const CYCLE: u64 = 32;
/// Small objects, which are put and got.
const SMALL: u64 = 1_000;
/// How long a client waits after a request that failed.
const AGAIN: Duration = Duration::from_millis(20);
/// How often a put of the filling is repeated.
const TRIES: u32 = 50;

/// What, where and for how long.
#[derive(Args)]
#[group(id = "objects-load")]
pub(crate) struct Options {
    /// What is asked.
    #[arg(value_enum)]
    operation: Operation,
    /// The servers, all of which hold the same objects; each gets its part of the clients.
    #[arg(long, required = true, value_delimiter = ',')]
    to: Vec<SocketAddr>,
    /// Objects of 8 MiB.
    #[arg(long)]
    objects: u64,
    /// Clients over all servers.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// For how long; `fill` and `read` end when they have come to all objects.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Operation {
    /// Makes a bucket, and puts all objects.
    Fill,
    /// Puts and gets of 4 KiB in turns, and now and then a get of 8 MiB.
    Mix,
    /// Gets all objects of 8 MiB, which must be as `fill` left them.
    Read,
}

/// What was done.
#[derive(Default)]
struct Done {
    puts: AtomicU64,
    gets: AtomicU64,
    large: AtomicU64,
    /// Requests that failed, by what was said.
    failed: Mutex<BTreeMap<String, u64>>,
}

/// Loads all servers.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let credentials = drive::credentials()?;
    let of = |address: &SocketAddr| super::client_of(&format!("http://{address}"), &credentials);
    let clients = options.to.iter().map(of).map(|it| it.map(Arc::new));
    let clients: Vec<Arc<S3>> = clients.collect::<Result<_>>()?;
    let first = clients.first().context("there is a server at least")?;
    match options.operation {
        Operation::Fill => runtime.block_on(fill(first, options.objects)),
        Operation::Read => runtime.block_on(read(first, options.objects)),
        Operation::Mix => runtime.block_on(mix(&clients, options)),
    }
}

async fn fill(client: &Arc<S3>, objects: u64) -> Result<()> {
    again(|| client.call(S3Request::new(Method::PUT, BUCKET, ""))).await?;
    let put = |client: Arc<S3>, at: u64| async move {
        let (key, body) = match at.checked_sub(SMALL) {
            None => (small(at), content(SMALL_BYTES, at)),
            Some(at) => (large_key(at), content(LARGE_BYTES, at)),
        };
        let request = || S3Request {
            body: body.clone(),
            ..S3Request::new(Method::PUT, BUCKET, &key)
        };
        again(|| client.call(request())).await
    };
    super::numbered(client, SMALL + objects, put).await
}

/// Asks until it is answered, some times: members may find each other.
async fn again<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> Result<()> {
    let mut tries = 1;
    while let Err(error) = ask().await {
        let is_refused = matches!(error.kind, ErrorKind::Refused { status, .. } if status < 500);
        if is_refused || TRIES <= tries {
            return Err(error.into());
        }
        tries += 1;
        tokio::time::sleep(AGAIN * tries).await;
    }
    Ok(())
}

async fn read(client: &Arc<S3>, objects: u64) -> Result<()> {
    let get = |client: Arc<S3>, at: u64| async move {
        let key = large_key(at);
        let found = client
            .call(S3Request::new(Method::GET, BUCKET, &key))
            .await?;
        ensure!(
            found.body == content(LARGE_BYTES, at),
            "{key} is not as it was put"
        );
        Ok(())
    };
    super::numbered(client, objects, get).await
}

async fn mix(clients: &[Arc<S3>], options: &Options) -> Result<()> {
    let done = Arc::new(Done::default());
    let body = content(SMALL_BYTES, 0);
    let begin = Instant::now();
    let until = begin + Duration::from_secs_f64(options.seconds);
    let mut working: JoinSet<Result<()>> = JoinSet::new();
    for number in 0..options.connections {
        let one = One {
            client: Arc::clone(&clients[number % clients.len()]),
            done: Arc::clone(&done),
            number: number as u64,
            objects: options.objects,
            body: body.clone(),
        };
        working.spawn(async move {
            let mut turn = 0;
            while Instant::now() < until {
                one.turn(turn).await?;
                turn += 1;
            }
            Ok(())
        });
    }
    all(working).await?;
    done.print(begin.elapsed());
    Ok(())
}

/// One client of the mix.
struct One {
    client: Arc<S3>,
    done: Arc<Done>,
    number: u64,
    objects: u64,
    body: Bytes,
}

impl One {
    /// One operation. What is refused, or not answered, is counted, and the client goes on.
    async fn turn(&self, turn: u64) -> Result<()> {
        // Clients do not come to their large gets at the same time.
        let place = turn + self.number * 7;
        let at = (place / 2).wrapping_mul(self.number + 1);
        let get = async |key: &str, bytes: usize| {
            let found = self
                .client
                .call(S3Request::new(Method::GET, BUCKET, key))
                .await;
            found.map(|reply| reply.body.len() == bytes)
        };
        let (count, is_right) = match place % CYCLE {
            last if last == CYCLE - 1 => {
                let key = large_key(at % self.objects);
                (&self.done.large, get(&key, LARGE_BYTES).await)
            }
            even if even % 2 == 0 => {
                let key = small(at % SMALL);
                let request = S3Request {
                    body: self.body.clone(),
                    ..S3Request::new(Method::PUT, BUCKET, &key)
                };
                let told = self.client.call(request).await;
                (&self.done.puts, told.map(|_| true))
            }
            _ => (&self.done.gets, get(&small(at % SMALL), SMALL_BYTES).await),
        };
        match is_right {
            Ok(true) => _ = count.fetch_add(1, Ordering::Relaxed),
            Ok(false) => bail!("an object is not whole"),
            Err(error) => {
                *self
                    .done
                    .failed
                    .lock()
                    .entry(error.to_string())
                    .or_default() += 1;
                tokio::time::sleep(AGAIN).await;
            }
        }
        Ok(())
    }
}

impl Done {
    fn print(&self, elapsed: Duration) {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (puts, gets, large) = (count(&self.puts), count(&self.gets), count(&self.large));
        let line = serde_json::json!({
            "rate": (puts + gets + large) as f64 / elapsed.as_secs_f64(),
            "puts": puts,
            "gets": gets,
            "large": large,
            "failed": *self.failed.lock(),
        });
        println!("{line}");
    }
}
