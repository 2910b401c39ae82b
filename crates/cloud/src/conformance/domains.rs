//! What a domain must keep.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{ConformanceError, RACERS, SystemUnderTest, Verdict, fails, same};
use crate::{
    Attribute, AttributePut, Domains, ErrorKind, Expected, ItemDelete, ItemPut, Page,
    ReadConsistency,
};

type Told = Result<(), ConformanceError>;
type Service<'a> = SystemUnderTest<'a, dyn Domains>;

/// How long an eventual read may miss an acknowledged write before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Judges domains, and tells each verdict as it is reached.
pub async fn domains(subject: &Service<'_>, verdict: &mut (dyn FnMut(Verdict) + Send)) {
    let mut tell = |promise, outcome| verdict(Verdict { promise, outcome });
    tell(
        "domains are created, listed, deleted",
        managed(subject).await,
    );
    tell("what is not there is not found", not_found(subject).await);
    tell("a put adds values", added(subject).await);
    tell("a put replaces where it says so", replaced(subject).await);
    tell("values are a set", a_set(subject).await);
    tell("any text is kept as it is", text(subject).await);
    tell("an item without attributes is none", emptied(subject).await);
    tell("only what is named is deleted", deleted(subject).await);
    tell("only what is asked for is read", projected(subject).await);
    tell("a condition on a value decides", on_value(subject).await);
    tell("a condition on absence decides", on_absence(subject).await);
    tell("of 64 conditional puts one wins", one_wins(subject).await);
    tell(
        "a deletion may have a condition",
        conditional_deletion(subject).await,
    );
    tell("a batch is put and deleted whole", batches(subject).await);
    tell(
        "an eventual read sees a write in the end",
        in_the_end(subject).await,
    );
    tell("a Select finds by value", selected(subject).await);
    tell("a Select goes on where a page ended", paged(subject).await);
    tell("a Select that is none is refused", no_select(subject).await);
    tell("a domain is counted", counted(subject).await);
}

async fn domain(subject: &Service<'_>, name: &str) -> Result<String, ConformanceError> {
    let domain = subject.name(name);
    subject.service.create(&domain).await?;
    Ok(domain)
}

/// An item of attributes written `name=value`, or `name@=value` to replace.
fn item(name: &str, attributes: &[&str]) -> ItemPut {
    let attribute = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        AttributePut {
            name: name.trim_end_matches('@').to_owned(),
            value: value.to_owned(),
            replace: name.ends_with('@'),
        }
    };
    ItemPut {
        name: name.to_owned(),
        attributes: attributes.iter().map(attribute).collect(),
    }
}

/// What to delete: `name`, or `name=value`; the whole item if nothing.
fn of_item(name: &str, attributes: &[&str]) -> ItemDelete {
    let attribute = |text: &&str| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => ((*text).to_owned(), None),
    };
    ItemDelete {
        name: name.to_owned(),
        attributes: attributes.iter().map(attribute).collect(),
    }
}

fn value(name: &str, value: &str) -> Expected {
    Expected::Value(Attribute {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

async fn put(subject: &Service<'_>, domain: &str, item: ItemPut) -> Told {
    Ok(subject.service.put(domain, &item, None).await?)
}

/// The item's pairs, written `name=value`, in order.
async fn pairs(
    subject: &Service<'_>,
    domain: &str,
    item: &str,
) -> Result<Vec<String>, ConformanceError> {
    let found = subject
        .service
        .get(domain, item, &[], ReadConsistency::Strong)
        .await?;
    Ok(in_order(&found))
}

fn in_order(attributes: &[Attribute]) -> Vec<String> {
    let pair = |Attribute { name, value }: &Attribute| format!("{name}={value}");
    let mut pairs: Vec<String> = attributes.iter().map(pair).collect();
    pairs.sort_unstable();
    pairs
}

async fn has(subject: &Service<'_>, domain: &str, item: &str, expected: &[&str]) -> Told {
    let found = pairs(subject, domain, item).await?;
    same(
        &found,
        &expected.iter().map(|pair| (*pair).to_owned()).collect(),
    )
}

async fn managed(subject: &Service<'_>) -> Told {
    let name = domain(subject, "managed").await?;
    subject.service.create(&name).await?;
    let is_listed = subject.service.list().await?.contains(&name);
    same(&is_listed, &true)?;
    subject.service.delete(&name).await?;
    subject.service.delete(&name).await?;
    let is_listed = subject.service.list().await?.contains(&name);
    same(&is_listed, &false)
}

async fn not_found(subject: &Service<'_>) -> Told {
    let (service, name) = (subject.service, subject.name("nowhere"));
    fails(
        service.get(&name, "i", &[], ReadConsistency::Strong).await,
        ErrorKind::NotFound,
    )?;
    fails(
        service.put(&name, &item("i", &["a=1"]), None).await,
        ErrorKind::NotFound,
    )?;
    fails(service.metadata(&name).await, ErrorKind::NotFound)?;
    let select = format!("select * from `{name}`");
    fails(
        service.select(&select, None, ReadConsistency::Strong).await,
        ErrorKind::NotFound,
    )
}

async fn added(subject: &Service<'_>) -> Told {
    let name = domain(subject, "added").await?;
    has(subject, &name, "i", &[]).await?;
    put(subject, &name, item("i", &["a=1", "b=2"])).await?;
    put(subject, &name, item("i", &["a=3"])).await?;
    has(subject, &name, "i", &["a=1", "a=3", "b=2"]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn replaced(subject: &Service<'_>) -> Told {
    let name = domain(subject, "replaced").await?;
    put(subject, &name, item("i", &["a=1", "a=2", "b=1"])).await?;
    put(subject, &name, item("i", &["a@=3", "a@=4"])).await?;
    has(subject, &name, "i", &["a=3", "a=4", "b=1"]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn a_set(subject: &Service<'_>) -> Told {
    let name = domain(subject, "set").await?;
    put(subject, &name, item("i", &["a=1", "a=1"])).await?;
    put(subject, &name, item("i", &["a=1"])).await?;
    has(subject, &name, "i", &["a=1"]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn text(subject: &Service<'_>) -> Told {
    let name = domain(subject, "text").await?;
    let values = [
        "a<b>&\"c'd",
        " two  blanks ",
        "Grüße, 世界 \u{1f600}",
        "50%+1",
    ];
    let attributes = values.iter().map(|value| AttributePut {
        name: "a b&c".to_owned(),
        value: (*value).to_owned(),
        replace: false,
    });
    let odd = ItemPut {
        name: "an <item> & \u{e9}".to_owned(),
        attributes: attributes.collect(),
    };
    subject.service.put(&name, &odd, None).await?;
    let found = subject
        .service
        .get(&name, &odd.name, &[], ReadConsistency::Strong)
        .await?;
    let found: BTreeSet<&str> = found.iter().map(|found| found.value.as_str()).collect();
    same(&found, &values.into_iter().collect())?;
    Ok(subject.service.delete(&name).await?)
}

async fn emptied(subject: &Service<'_>) -> Told {
    let name = domain(subject, "emptied").await?;
    put(subject, &name, item("i", &["a=1"])).await?;
    subject
        .service
        .remove(&name, &of_item("i", &["a"]), None)
        .await?;
    let page = select(subject, &format!("select itemName() from `{name}`"), None).await?;
    same(&page.items.len(), &0)?;
    Ok(subject.service.delete(&name).await?)
}

async fn deleted(subject: &Service<'_>) -> Told {
    let name = domain(subject, "deleted").await?;
    put(subject, &name, item("i", &["a=1", "a=2", "b=1", "c=1"])).await?;
    subject
        .service
        .remove(&name, &of_item("i", &["a=1", "b"]), None)
        .await?;
    has(subject, &name, "i", &["a=2", "c=1"]).await?;
    subject
        .service
        .remove(&name, &of_item("i", &["a=7", "d"]), None)
        .await?;
    has(subject, &name, "i", &["a=2", "c=1"]).await?;
    subject
        .service
        .remove(&name, &of_item("i", &[]), None)
        .await?;
    has(subject, &name, "i", &[]).await?;
    subject
        .service
        .remove(&name, &of_item("i", &[]), None)
        .await?;
    Ok(subject.service.delete(&name).await?)
}

async fn projected(subject: &Service<'_>) -> Told {
    let name = domain(subject, "projected").await?;
    put(subject, &name, item("i", &["a=1", "b=2", "c=3"])).await?;
    let names = ["a".to_owned(), "c".to_owned(), "d".to_owned()];
    let found = subject
        .service
        .get(&name, "i", &names, ReadConsistency::Strong)
        .await?;
    same(&in_order(&found), &vec!["a=1".to_owned(), "c=3".to_owned()])?;
    Ok(subject.service.delete(&name).await?)
}

async fn on_value(subject: &Service<'_>) -> Told {
    let name = domain(subject, "on-value").await?;
    put(subject, &name, item("i", &["v=1"])).await?;
    let next = item("i", &["v@=2"]);
    subject
        .service
        .put(&name, &next, Some(&value("v", "1")))
        .await?;
    let outcome = subject
        .service
        .put(&name, &next, Some(&value("v", "1")))
        .await;
    fails(outcome, ErrorKind::Precondition)?;
    let outcome = subject
        .service
        .put(&name, &next, Some(&value("w", "1")))
        .await;
    fails(outcome, ErrorKind::Precondition)?;
    has(subject, &name, "i", &["v=2"]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn on_absence(subject: &Service<'_>) -> Told {
    let name = domain(subject, "on-absence").await?;
    let absent = Expected::Absent("v".to_owned());
    subject
        .service
        .put(&name, &item("i", &["v=1"]), Some(&absent))
        .await?;
    let outcome = subject
        .service
        .put(&name, &item("i", &["v=2"]), Some(&absent))
        .await;
    fails(outcome, ErrorKind::Precondition)?;
    has(subject, &name, "i", &["v=1"]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn one_wins(subject: &Service<'_>) -> Told {
    let name = domain(subject, "one-wins").await?;
    let absent = Expected::Absent("owner".to_owned());
    let puts: Vec<ItemPut> = (0..RACERS)
        .map(|by| item("i", &[&format!("owner={by}")]))
        .collect();
    let claims = puts
        .iter()
        .map(|put| subject.service.put(&name, put, Some(&absent)));
    let claims = futures_util::future::join_all(claims).await;
    same(&claims.iter().filter(|claim| claim.is_ok()).count(), &1)?;
    for claim in claims.into_iter().filter(Result::is_err) {
        fails(claim, ErrorKind::Precondition)?;
    }
    same(&pairs(subject, &name, "i").await?.len(), &1)?;
    Ok(subject.service.delete(&name).await?)
}

async fn conditional_deletion(subject: &Service<'_>) -> Told {
    let name = domain(subject, "deletion").await?;
    put(subject, &name, item("i", &["v=1"])).await?;
    let whole = of_item("i", &[]);
    let outcome = subject
        .service
        .remove(&name, &whole, Some(&value("v", "2")))
        .await;
    fails(outcome, ErrorKind::Precondition)?;
    has(subject, &name, "i", &["v=1"]).await?;
    subject
        .service
        .remove(&name, &whole, Some(&value("v", "1")))
        .await?;
    has(subject, &name, "i", &[]).await?;
    Ok(subject.service.delete(&name).await?)
}

async fn batches(subject: &Service<'_>) -> Told {
    let name = domain(subject, "batches").await?;
    let puts: Vec<ItemPut> = (0..25)
        .map(|at| item(&format!("i{at:02}"), &["a=1"]))
        .collect();
    subject.service.put_batch(&name, &puts).await?;
    has(subject, &name, "i24", &["a=1"]).await?;
    let too_many: Vec<ItemPut> = (0..26)
        .map(|at| item(&format!("j{at}"), &["a=1"]))
        .collect();
    fails(
        subject.service.put_batch(&name, &too_many).await,
        ErrorKind::Invalid,
    )?;
    has(subject, &name, "j0", &[]).await?;
    let deletes = [of_item("i00", &[]), of_item("i01", &["a"])];
    subject.service.remove_batch(&name, &deletes).await?;
    let page = select(subject, &format!("select itemName() from `{name}`"), None).await?;
    same(&page.items.len(), &23)?;
    Ok(subject.service.delete(&name).await?)
}

async fn in_the_end(subject: &Service<'_>) -> Told {
    let name = domain(subject, "in-the-end").await?;
    put(subject, &name, item("i", &["a=1"])).await?;
    let until = subject.clock.monotonic() + PATIENCE;
    loop {
        let found = subject
            .service
            .get(&name, "i", &[], ReadConsistency::Eventual)
            .await;
        // A member that lags may not know the domain yet.
        let is_there = matches!(&found, Ok(found) if found.len() == 1);
        if is_there || until <= subject.clock.monotonic() {
            same(&is_there, &true)?;
            return Ok(subject.service.delete(&name).await?);
        }
        subject.clock.sleep(Duration::from_millis(100)).await;
    }
}

async fn select(
    subject: &Service<'_>,
    expression: &str,
    token: Option<&str>,
) -> Result<Page, ConformanceError> {
    Ok(subject
        .service
        .select(expression, token, ReadConsistency::Strong)
        .await?)
}

fn names(page: &Page) -> Vec<String> {
    page.items.iter().map(|item| item.name.clone()).collect()
}

async fn selected(subject: &Service<'_>) -> Told {
    let name = domain(subject, "selected").await?;
    put(subject, &name, item("x", &["colour=red", "size=1"])).await?;
    put(subject, &name, item("y", &["colour=blue", "size=2"])).await?;
    put(subject, &name, item("z", &["colour=red", "size=3"])).await?;
    let red =
        format!("select * from `{name}` where colour = 'red' and size > '0' order by size desc");
    let page = select(subject, &red, None).await?;
    same(&names(&page), &vec!["z".to_owned(), "x".to_owned()])?;
    same(
        &in_order(&page.items[0].attributes),
        &vec!["colour=red".to_owned(), "size=3".to_owned()],
    )?;
    Ok(subject.service.delete(&name).await?)
}

async fn paged(subject: &Service<'_>) -> Told {
    let name = domain(subject, "paged").await?;
    let puts: Vec<ItemPut> = (0..23)
        .map(|at| item(&format!("i{at:02}"), &["a=1"]))
        .collect();
    subject.service.put_batch(&name, &puts).await?;
    let expression = format!("select itemName() from `{name}` limit 10");
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let page = select(subject, &expression, token.as_deref()).await?;
        found.extend(names(&page));
        token = page.next_token;
        if token.is_none() || found.len() > puts.len() {
            break;
        }
    }
    found.sort_unstable();
    let expected: Vec<String> = puts.into_iter().map(|put| put.name).collect();
    same(&found, &expected)?;
    Ok(subject.service.delete(&name).await?)
}

async fn no_select(subject: &Service<'_>) -> Told {
    let outcome = subject
        .service
        .select("select from where", None, ReadConsistency::Strong)
        .await;
    fails(outcome, ErrorKind::Invalid)
}

async fn counted(subject: &Service<'_>) -> Told {
    let name = domain(subject, "counted").await?;
    put(subject, &name, item("one", &["a=1", "b=22"])).await?;
    put(subject, &name, item("three", &["a=4444"])).await?;
    let until = subject.clock.monotonic() + PATIENCE;
    loop {
        // The replica that counts may lag, and not know the domain yet.
        let found = subject.service.metadata(&name).await;
        let is_counted = matches!(&found, Ok(found) if found.item_count == 2);
        if is_counted || until <= subject.clock.monotonic() {
            let found = found?;
            same(&found.item_count, &2)?;
            same(&found.item_names_size_bytes, &8)?;
            same(&found.attribute_name_count, &2)?;
            same(&found.attribute_value_count, &3)?;
            same(&found.attribute_values_size_bytes, &7)?;
            return Ok(subject.service.delete(&name).await?);
        }
        subject.clock.sleep(Duration::from_secs(1)).await;
    }
}
