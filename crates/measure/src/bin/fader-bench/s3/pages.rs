//! Pages of a bucket of many keys beside those of a bucket of few, each in a server of its own.
//! Measured are the time of a page, and memory while pages are listed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use fader_client::{S3, S3Request};
use fader_measure::{Interval, median, ratio_of_medians};
use hyper::Method;
use tokio::runtime::Runtime;

use super::{BUCKET, Work, finding, large, listed, numbered, once, put};
use crate::report::{Finding, Target};
use crate::server::Server;

/// Keys of the smaller bucket.
const FEW: u64 = 10_000;
/// A page of many keys takes at most so much of one of few.
const MOST: f64 = 1.2;
/// Pages of a round.
const PAGES: u64 = 100;
/// Keys after which the progress is told.
const TOLD: u64 = 1_000_000;

/// A server with a bucket of so many keys.
struct Side {
    keys: u64,
    server: Server,
    client: Arc<S3>,
    /// Milliseconds of a page, by round: the medians.
    page_ms: Vec<f64>,
    /// Memory while pages are listed / before, in the worst round.
    resident: f64,
}

impl Side {
    fn begin(runtime: &Runtime, fader: &Path, data: &Path, keys: u64) -> Result<Side> {
        let server = Server::fader(fader, data)?;
        let address = format!("http://{}", server.target().address);
        let client = Arc::new(super::client(&address)?);
        eprintln!("a bucket with {keys} keys is filled");
        runtime.block_on(fill(&client, keys))?;
        Ok(Side {
            keys,
            server,
            client,
            page_ms: Vec::new(),
            resident: 0.0,
        })
    }

    fn round(&mut self, runtime: &Runtime) -> Result<()> {
        let mut times = Vec::new();
        let before = self.server.resident()?.max(1) as f64;
        let more = large::peak(&self.server, || {
            for turn in 0..PAGES {
                let begin = Instant::now();
                let none = Bytes::new();
                runtime.block_on(once(&self.client, Work::List, turn, self.keys, &none))?;
                times.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            Ok(())
        })?;
        self.page_ms.push(median(&times));
        self.resident = self.resident.max((before + more as f64) / before);
        Ok(())
    }
}

/// Measures both in turns. The first turn, in which caches fill, counts for nothing.
pub(super) fn measure(
    runtime: &Runtime,
    common: &crate::Options,
    scratch: &Path,
    many: u64,
) -> Result<Vec<Finding>> {
    let mut sides = Vec::new();
    for (name, keys) in [("few", FEW.min(many)), ("many", many)] {
        let data = scratch.join(name);
        sides.push(Side::begin(runtime, &common.fader, &data, keys)?);
    }
    for round in 0..=common.runs() {
        for side in &mut sides {
            side.round(runtime)?;
            if round == 0 {
                side.page_ms.clear();
                side.resident = 0.0;
            }
        }
    }
    let [few, many] = &sides[..] else {
        unreachable!("there are two");
    };
    let (of_few, of_many) = (few.keys, many.keys);
    let name = format!("a page of 1,000 of {of_many} keys / of {of_few}: time");
    let time = ratio_of_medians(&many.page_ms, &few.page_ms, common.seed);
    let mut findings = vec![finding(name, time, Target::AtMost(MOST))];
    findings.extend(sides.iter().map(|side| {
        let name = format!(
            "resident while pages of {} keys are listed / before",
            side.keys
        );
        finding(name, Interval::single(side.resident), Target::AtMost(MOST))
    }));
    for side in sides {
        let ended = side.server.stop()?;
        ensure!(ended.success(), "the server did not end in peace");
    }
    Ok(findings)
}

async fn fill(client: &Arc<S3>, keys: u64) -> Result<()> {
    client.call(S3Request::new(Method::PUT, BUCKET, "")).await?;
    let fill = move |client: Arc<S3>, at: u64| async move {
        put(&client, &listed(at), Bytes::new()).await?;
        if (at + 1).is_multiple_of(TOLD) {
            eprintln!("{} of {keys} keys", at + 1);
        }
        Ok(())
    };
    numbered(client, keys, fill).await
}
