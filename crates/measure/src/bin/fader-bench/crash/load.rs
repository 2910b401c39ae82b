//! The load of one round: every connection notes what it did, and stops at the first silence.

use std::sync::Arc;

use anyhow::{Result, bail};
use fader_client::{CallOptions, Error, ErrorKind, SimpleDb};
use fader_cloud::{Attribute, AttributePut, Expected, ItemDelete, ItemPut};
use fader_measure::{COUNT, COUNTER, DomainLog, content};
use tokio::task::JoinSet;

/// Connections that put, and now and then put batches or delete.
const WRITERS: u32 = 6;
/// Connections that race for the counter.
const INCREMENTERS: u32 = 2;
const BATCH_ITEMS: u32 = 5;

/// A load that runs until the server is gone.
pub(super) struct Running {
    tasks: JoinSet<Result<DomainLog>>,
}

/// Starts the load.
pub(super) fn start(client: &Arc<SimpleDb>, domain: &str) -> Running {
    let mut tasks = JoinSet::new();
    let domain: Arc<str> = Arc::from(domain);
    for writer in 0..WRITERS {
        let (client, domain) = (Arc::clone(client), Arc::clone(&domain));
        tasks.spawn(async move { write(&client, &domain, writer).await });
    }
    for _ in 0..INCREMENTERS {
        let (client, domain) = (Arc::clone(client), Arc::clone(&domain));
        tasks.spawn(async move { increment(&client, &domain).await });
    }
    Running { tasks }
}

impl Running {
    /// Waits for all connections to notice that the server is gone.
    pub(super) async fn finish(mut self) -> Result<DomainLog> {
        let mut log = DomainLog::default();
        while let Some(done) = self.tasks.join_next().await {
            log.merge(done??);
        }
        Ok(log)
    }
}

/// How a request ended.
enum Answer {
    Yes,
    /// Refused: nothing changed.
    No(String),
    /// None came: it may have happened.
    Silence,
    /// It was never sent.
    Unsent,
}

fn answer<T>(result: Result<T, Error>) -> Result<Answer> {
    match result {
        Ok(_) => Ok(Answer::Yes),
        Err(error) => match error.kind {
            ErrorKind::Refused { status, code, .. } if status < 500 => Ok(Answer::No(code)),
            ErrorKind::Refused { .. } | ErrorKind::Ambiguous => Ok(Answer::Silence),
            ErrorKind::Unavailable => Ok(Answer::Unsent),
            ErrorKind::Invalid | ErrorKind::Malformed => Err(error.into()),
        },
    }
}

async fn write(client: &SimpleDb, domain: &str, writer: u32) -> Result<DomainLog> {
    let mut log = DomainLog::default();
    for number in 0.. {
        let name = |part: u32| format!("writer-{writer}-{number}-{part}");
        let names: Vec<String> = match number % 4 {
            0 => (0..BATCH_ITEMS).map(name).collect(),
            _ => vec![name(0)],
        };
        let puts: Vec<ItemPut> = names.iter().map(|name| put(name)).collect();
        let result = match &puts[..] {
            [one] => {
                client
                    .put_attributes(
                        domain,
                        &one.name,
                        &one.attributes,
                        None,
                        CallOptions::default(),
                    )
                    .await
            }
            many => {
                client
                    .batch_put_attributes(domain, many, CallOptions::default())
                    .await
            }
        };
        match answer(result)? {
            Answer::Yes => log.put(&names, true),
            Answer::No(code) => bail!("a put was refused: {code}"),
            Answer::Silence => {
                log.put(&names, false);
                break;
            }
            Answer::Unsent => break,
        }
        if number % 7 == 0 {
            let whole = ItemDelete {
                name: names[0].clone(),
                attributes: Vec::new(),
            };
            let result = client
                .delete_attributes(domain, &whole, None, CallOptions::default())
                .await;
            match answer(result)? {
                Answer::Yes => log.delete(&names[0], true),
                Answer::No(code) => bail!("a delete was refused: {code}"),
                Answer::Silence => {
                    log.delete(&names[0], false);
                    break;
                }
                Answer::Unsent => break,
            }
        }
    }
    Ok(log)
}

fn put(name: &str) -> ItemPut {
    let attributes = content(name).into_iter().map(|attribute| AttributePut {
        name: attribute.name,
        value: attribute.value,
        replace: false,
    });
    ItemPut {
        name: name.to_owned(),
        attributes: attributes.collect(),
    }
}

async fn increment(client: &SimpleDb, domain: &str) -> Result<DomainLog> {
    let mut log = DomainLog::default();
    loop {
        let result = client
            .get_attributes(domain, COUNTER, &[], CallOptions::consistent())
            .await;
        let found = match result {
            Ok(found) => found.attributes,
            Err(error) => match answer::<()>(Err(error))? {
                Answer::No(code) => bail!("a read was refused: {code}"),
                _ => break,
            },
        };
        let (next, expected) = match &found[..] {
            [] => (1, Expected::Absent(COUNT.to_owned())),
            [attribute] => (
                attribute.value.parse::<u64>()? + 1,
                Expected::Value(attribute.clone()),
            ),
            more => bail!("the counter holds {more:?}"),
        };
        let attribute = Attribute {
            name: COUNT.to_owned(),
            value: next.to_string(),
        };
        let put = AttributePut {
            name: attribute.name,
            value: attribute.value,
            replace: true,
        };
        let result = client
            .put_attributes(
                domain,
                COUNTER,
                &[put],
                Some(&expected),
                CallOptions::default(),
            )
            .await;
        match answer(result)? {
            Answer::Yes => log.increment(true),
            // The other connection was first; one that deletes nothing leaves no third reason.
            Answer::No(code) if code == "ConditionalCheckFailed" => {}
            Answer::No(code) => bail!("an increment was refused: {code}"),
            Answer::Silence => {
                log.increment(false);
                break;
            }
            Answer::Unsent => break,
        }
    }
    Ok(log)
}
