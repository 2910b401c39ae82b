//! The database as a library: any number of programs run this on one folder or bucket at once.
//!
//! ```sh
//! cargo run --example bookshop -- file:///tmp/bookshop
//! cargo run --example bookshop -- 's3://bucket/shop?endpoint=http://127.0.0.1:9000'
//! ```
//!
//! Each run orders a book. Any of these processes may be killed at any moment.

use std::process::ExitCode;

use anyhow::{Context, Result};
use fader_client::{Access, Location};
use fader_cloud::{Cloud, ErrorKind, PriceBook};
use fader_database::{
    CollectionSettings, Database, IndexRange, IndexValue, Level, Options, Transaction,
};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let url = std::env::args().nth(1).context("say where: a URL")?;
    println!("{}", shop(&url).await?);
    Ok(ExitCode::SUCCESS)
}

/// Orders a book in the database at a URL; what was ordered so far.
async fn shop(url: &str) -> Result<String> {
    let database = open(cloud(url).await?).await?;

    // A transaction at Atomic takes effect whole or not at all, also when this process dies.
    let mut order = database.begin(Level::Atomic);
    let isbn = b"0385333498";
    let book = order.get("books", isbn).await?.context("the book")?;
    let number = format!("{:016x}", std::process::id());
    let line = br#"{"customer": "Winston", "isbn": "0385333498"}"#;
    order.put("orders", number.as_bytes(), line).await?;
    order.update("books", isbn, &book).await?;
    let committed = order.commit().await?;

    // Each transaction knows what it used.
    let book = PriceBook::built_in("aws-2026").context("a built-in price book")?;
    for (stage, usage) in &committed.usage {
        println!(
            "{stage}: {} requests, ${}",
            usage.requests(),
            book.cost(usage)
        );
    }

    // This session sees its own records at once; others after the next checkpoint.
    let orders = of_customer(&mut database.begin(Level::Monotonic), "Winston").await?;

    // Brings what was committed into pages. A client that dies before leaves that to others.
    database.close().await?;
    Ok(orders)
}

/// Orders of a customer, by the index.
async fn of_customer(transaction: &mut Transaction, name: &str) -> Result<String> {
    let range = IndexRange::Is(IndexValue::Text(name.to_owned()));
    let hits = transaction
        .lookup("orders", "customer", &range, None, 100)
        .await?;
    let lines = hits.iter().map(|hit| String::from_utf8_lossy(&hit.record));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// The database of a cloud, with its collections; created if it is not there.
async fn open(cloud: Cloud) -> Result<Database> {
    match Database::open(cloud.clone(), Options::default()).await {
        Err(error) if error.kind == ErrorKind::NotFound => {}
        opened => return Ok(opened?),
    }
    let database = Database::create(cloud, Options::default()).await?;
    let settings = CollectionSettings::default();
    database.create_collection("books", &settings).await?;
    let settings = CollectionSettings {
        indexes: [("customer".to_owned(), "customer".to_owned())].into(),
        ..settings
    };
    database.create_collection("orders", &settings).await?;
    // Many records at once, in the order of their keys.
    let mut load = database.load("books").await?;
    load.push(b"0385333498", br#"{"title": "The Sirens of Titan"}"#)
        .await?;
    load.push(b"0441172717", br#"{"title": "Dune"}"#).await?;
    load.finish().await?;
    Ok(database)
}

/// A cloud by its URL, with credentials from the environment, and queues in the bucket.
async fn cloud(url: &str) -> Result<Cloud> {
    let options = fader_client::Options {
        access: Access::Write,
        ..fader_client::Options::default()
    };
    if let Location::Folder(path) = Location::parse(url)? {
        std::fs::create_dir_all(&path)?;
    }
    Ok(fader_client::open(url, &options).await?)
}

#[cfg(test)]
mod tests {
    use super::shop;

    #[tokio::test]
    async fn an_order_is_found_by_its_customer() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}", folder.path().display());
        for _ in 0..2 {
            let orders = shop(&url).await.expect("a folder that can be written");
            assert!(orders.contains("0385333498"), "{orders}");
        }
    }
}
