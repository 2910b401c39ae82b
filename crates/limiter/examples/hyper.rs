//! Gets a page many times, as fast as its server takes it, with hyper's client under a window.
//!
//! Run with: `cargo run -p fader-limiter --example hyper -- http://127.0.0.1:8080/ 10000`

use std::error::Error;

use bytes::Bytes;
use fader_limiter::{ByMethod, WindowLayer};
use fader_window::Settings;
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tower_layer::Layer;
use tower_service::Service;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(count)) = (args.next(), args.next()) else {
        return Err("which page, and how often?".into());
    };
    let layer = WindowLayer::new(ByMethod, Settings::default());
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let client = layer.layer(client);

    let mut calls = JoinSet::new();
    for _ in 0..count.parse::<u32>()? {
        let mut client = client.clone();
        let request = Request::get(&url).body(Empty::new())?;
        calls.spawn(async move { client.call(request).await });
    }
    while let Some(reply) = calls.join_next().await {
        reply??;
    }
    for (lane, state) in layer.windows() {
        println!("{lane:?}: {state:?}");
    }
    Ok(())
}
