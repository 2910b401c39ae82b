//! What a queue must keep.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{ConformanceError, RACERS, SystemUnderTest, Verdict, ensure, fails, same};
use crate::{
    Error, ErrorKind, MESSAGE_BYTES_MAX, MESSAGES_MAX, QueueSettings, Queues, Receipt, Receive,
    Received,
};

type Told = Result<(), ConformanceError>;
type Service<'a> = SystemUnderTest<'a, dyn Queues>;

/// How long a story waits for messages altogether before they count as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// A visibility that is soon over.
const SHORT: Duration = Duration::from_secs(2);

/// Judges queues, and tells each verdict as it is reached.
pub async fn queues(subject: &Service<'_>, verdict: &mut (dyn FnMut(Verdict) + Send)) {
    let mut tell = |promise, outcome| verdict(Verdict { promise, outcome });
    tell("a queue is created once", created_once(subject).await);
    tell("what is not there is not found", not_found(subject).await);
    tell("queues are listed by prefix", listed(subject).await);
    tell("what is sent is received", received(subject).await);
    tell("a batch is received whole", batch(subject).await);
    tell("any text arrives as it was", text(subject).await);
    tell(
        "a message may be as long as all together",
        long(subject).await,
    );
    tell("what is too long is refused whole", too_long(subject).await);
    tell("a received message is hidden", hidden(subject).await);
    tell(
        "of 64 receivers one gets a message",
        one_receiver(subject).await,
    );
    tell("what is not removed comes again", again(subject).await);
    tell("what is removed is gone", removed(subject).await);
    tell("removing twice is fine", removed_twice(subject).await);
    tell(
        "a message can be hidden longer",
        hidden_longer(subject).await,
    );
    tell("a message can be given back", given_back(subject).await);
    tell(
        "a long receive waits for a message",
        long_receive(subject).await,
    );
    tell("messages are counted", counted(subject).await);
    tell(
        "a strange receipt removes nothing",
        strange_receipt(subject).await,
    );
}

/// A new queue for a story, whose messages are hidden for long unless the receive says otherwise.
async fn queue(subject: &Service<'_>, name: &str) -> Result<String, ConformanceError> {
    let queue = subject.name(name);
    subject
        .service
        .create(&queue, &QueueSettings::default())
        .await?;
    Ok(queue)
}

fn short(max: usize, visibility: Duration) -> Receive {
    Receive {
        max,
        visibility: Some(visibility),
        wait: Duration::ZERO,
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn send(
    subject: &Service<'_>,
    queue: &str,
    bodies: &[String],
) -> Result<Vec<String>, ConformanceError> {
    let sent = subject.service.send(queue, bodies).await?;
    let ids: Result<Vec<String>, Error> = sent.into_iter().collect();
    let ids = ids?;
    same(&ids.len(), &bodies.len())?;
    Ok(ids)
}

/// Receives until there are `count` different messages.
async fn gather(
    subject: &Service<'_>,
    queue: &str,
    count: usize,
    visibility: Duration,
) -> Result<Vec<Received>, ConformanceError> {
    let until = subject.clock.monotonic() + PATIENCE;
    let mut found: Vec<Received> = Vec::new();
    while found.len() < count && subject.clock.monotonic() < until {
        let how = Receive {
            wait: Duration::from_secs(1),
            ..short(MESSAGES_MAX, visibility)
        };
        for received in subject.service.receive(queue, &how).await? {
            if found.iter().all(|known| known.id != received.id) {
                found.push(received);
            }
        }
    }
    same(&found.len(), &count)?;
    Ok(found)
}

async fn nothing(subject: &Service<'_>, queue: &str) -> Told {
    let found = subject
        .service
        .receive(queue, &short(MESSAGES_MAX, SHORT))
        .await?;
    ensure(found.is_empty(), || {
        format!("expected nothing, found {found:?}")
    })
}

async fn created_once(subject: &Service<'_>) -> Told {
    let name = queue(subject, "once").await?;
    let settings = QueueSettings::default();
    subject.service.create(&name, &settings).await?;
    let other = QueueSettings {
        visibility: Duration::from_secs(77),
        ..settings
    };
    fails(
        subject.service.create(&name, &other).await,
        ErrorKind::Precondition,
    )?;
    Ok(subject.service.delete(&name).await?)
}

async fn not_found(subject: &Service<'_>) -> Told {
    let (service, name) = (subject.service, subject.name("nowhere"));
    fails(
        service.send(&name, &texts(&["a"])).await,
        ErrorKind::NotFound,
    )?;
    fails(
        service.receive(&name, &short(1, SHORT)).await,
        ErrorKind::NotFound,
    )?;
    fails(service.counts(&name).await, ErrorKind::NotFound)?;
    fails(service.delete(&name).await, ErrorKind::NotFound)
}

async fn listed(subject: &Service<'_>) -> Told {
    let mut expected = Vec::new();
    for name in ["list-a", "list-b", "other"] {
        expected.push(queue(subject, name).await?);
    }
    let found = subject.service.list(&subject.name("list-")).await?;
    same(&found, &expected[..2].to_vec())?;
    for name in &expected {
        subject.service.delete(name).await?;
    }
    Ok(())
}

async fn received(subject: &Service<'_>) -> Told {
    let name = queue(subject, "received").await?;
    nothing(subject, &name).await?;
    let ids = send(subject, &name, &texts(&["hello"])).await?;
    let found = gather(subject, &name, 1, SHORT).await?;
    same(&found[0].body, &"hello".to_owned())?;
    same(&found[0].id, &ids[0])?;
    same(&found[0].receives, &1)?;
    Ok(subject.service.delete(&name).await?)
}

async fn batch(subject: &Service<'_>) -> Told {
    let name = queue(subject, "batch").await?;
    let bodies: Vec<String> = (0..MESSAGES_MAX)
        .map(|number| format!("message {number}"))
        .collect();
    let ids = send(subject, &name, &bodies).await?;
    let found = gather(subject, &name, bodies.len(), Duration::from_secs(30)).await?;
    let sent: BTreeSet<(String, String)> = ids.into_iter().zip(bodies).collect();
    let found = found
        .into_iter()
        .map(|received| (received.id, received.body));
    same(&found.collect(), &sent)?;
    Ok(subject.service.delete(&name).await?)
}

async fn text(subject: &Service<'_>) -> Told {
    let name = queue(subject, "text").await?;
    let bodies = texts(&[
        "<a href=\"x\">&amp;</a>",
        " tab\there, line\nthere ",
        "Grüße, 世界 \u{1f600}",
        "{\"a\": [1, 2]}",
    ]);
    send(subject, &name, &bodies).await?;
    let found = gather(subject, &name, bodies.len(), SHORT).await?;
    let found: BTreeSet<String> = found.into_iter().map(|received| received.body).collect();
    same(&found, &bodies.into_iter().collect())?;
    let control = subject.service.send(&name, &texts(&["\u{1}"])).await;
    refused_whole(control)?;
    Ok(subject.service.delete(&name).await?)
}

async fn long(subject: &Service<'_>) -> Told {
    let name = queue(subject, "long").await?;
    let body = "x".repeat(MESSAGE_BYTES_MAX);
    send(subject, &name, std::slice::from_ref(&body)).await?;
    let found = gather(subject, &name, 1, SHORT).await?;
    ensure(found[0].body == body, || "the body differs".to_owned())?;
    Ok(subject.service.delete(&name).await?)
}

/// Services that take more than the contract says are none the worse for it: only what exceeds
/// every service's limit must be refused.
async fn too_long(subject: &Service<'_>) -> Told {
    let name = queue(subject, "too-long").await?;
    let bodies = vec!["x".repeat(1 << 20), "y".to_owned()];
    refused_whole(subject.service.send(&name, &bodies).await)?;
    nothing(subject, &name).await?;
    Ok(subject.service.delete(&name).await?)
}

fn refused_whole(sent: crate::Result<Vec<crate::Result<String>>>) -> Told {
    match sent {
        Err(error) => same(&error.kind, &ErrorKind::Invalid),
        Ok(each) => ensure(each.iter().all(Result::is_err), || {
            format!("was sent: {each:?}")
        }),
    }
}

async fn hidden(subject: &Service<'_>) -> Told {
    let name = queue(subject, "hidden").await?;
    send(subject, &name, &texts(&["a"])).await?;
    gather(subject, &name, 1, Duration::from_secs(60)).await?;
    nothing(subject, &name).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn one_receiver(subject: &Service<'_>) -> Told {
    let name = queue(subject, "one-receiver").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let how = short(1, Duration::from_secs(60));
    let receives = (0..RACERS).map(|_| subject.service.receive(&name, &how));
    let mut found = 0;
    for received in futures_util::future::join_all(receives).await {
        found += received?.len();
    }
    ensure(found <= 1, || format!("{found} receivers got it"))?;
    // Short receives may all have missed it.
    gather(subject, &name, 1 - found, SHORT).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn again(subject: &Service<'_>) -> Told {
    let name = queue(subject, "again").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let first = gather(subject, &name, 1, SHORT).await?;
    subject.clock.sleep(SHORT).await;
    let second = gather(subject, &name, 1, SHORT).await?;
    same(&second[0].id, &first[0].id)?;
    same(&second[0].receives, &2)?;
    Ok(subject.service.delete(&name).await?)
}

async fn remove(subject: &Service<'_>, queue: &str, receipt: &Receipt) -> Told {
    let receipts = std::slice::from_ref(receipt);
    let mut removed = subject.service.remove(queue, receipts).await?;
    same(&removed.len(), &1)?;
    Ok(removed.remove(0)?)
}

async fn removed(subject: &Service<'_>) -> Told {
    let name = queue(subject, "removed").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let found = gather(subject, &name, 1, SHORT).await?;
    remove(subject, &name, &found[0].receipt).await?;
    subject.clock.sleep(SHORT + SHORT).await;
    nothing(subject, &name).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn removed_twice(subject: &Service<'_>) -> Told {
    let name = queue(subject, "twice").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let found = gather(subject, &name, 1, Duration::from_secs(60)).await?;
    remove(subject, &name, &found[0].receipt).await?;
    remove(subject, &name, &found[0].receipt).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn hidden_longer(subject: &Service<'_>) -> Told {
    let name = queue(subject, "longer").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let found = gather(subject, &name, 1, SHORT).await?;
    let longer = Duration::from_secs(60);
    subject
        .service
        .hide(&name, &found[0].receipt, longer)
        .await?;
    subject.clock.sleep(SHORT + SHORT).await;
    nothing(subject, &name).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn given_back(subject: &Service<'_>) -> Told {
    let name = queue(subject, "back").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let found = gather(subject, &name, 1, Duration::from_secs(600)).await?;
    subject
        .service
        .hide(&name, &found[0].receipt, Duration::ZERO)
        .await?;
    gather(subject, &name, 1, SHORT).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn long_receive(subject: &Service<'_>) -> Told {
    let name = queue(subject, "wait").await?;
    let how = Receive {
        wait: Duration::from_secs(20),
        ..short(1, SHORT)
    };
    let receive = subject.service.receive(&name, &how);
    let send = async {
        subject.clock.sleep(Duration::from_secs(1)).await;
        send(subject, &name, &texts(&["a"])).await
    };
    let (found, sent) = futures_util::future::join(receive, send).await;
    sent?;
    same(&found?.len(), &1)?;
    Ok(subject.service.delete(&name).await?)
}

async fn counted(subject: &Service<'_>) -> Told {
    let name = queue(subject, "counted").await?;
    send(subject, &name, &texts(&["a", "b", "c"])).await?;
    subject
        .service
        .receive(&name, &short(1, Duration::from_secs(60)))
        .await?;
    let counts = subject.service.counts(&name).await?;
    same(&counts.total(), &3)?;
    Ok(subject.service.delete(&name).await?)
}

async fn strange_receipt(subject: &Service<'_>) -> Told {
    let name = queue(subject, "strange").await?;
    send(subject, &name, &texts(&["a"])).await?;
    let strange = Receipt("no receipt at all".to_owned());
    let removed = remove(subject, &name, &strange).await;
    ensure(removed.is_err(), || "it was taken".to_owned())?;
    gather(subject, &name, 1, SHORT).await?;
    Ok(subject.service.delete(&name).await?)
}
