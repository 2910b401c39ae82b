//! Records of a curated collection wait until they are approved.

use crate::stage;
use fader_cloud::ErrorKind;
use fader_cloud::model::Model;
use fader_database::{
    CollectionSettings, Database, Level, Proposal, ProposedChange, Reviewed, Verdict,
};
use stage::{Backend, client, database, on_all, small};

async fn keys(model: &Model, backend: Backend) -> Vec<String> {
    let reader = client(model, "reader", backend).await;
    let mut transaction = reader.begin(Level::Basic);
    let all = transaction.range("curated", b"", None, 100).await;
    let all = all.expect("readable").into_iter();
    all.map(|(key, _)| String::from_utf8_lossy(&key).into_owned())
        .collect()
}

async fn put(database: &Database, level: Level, keys: &[&str]) {
    let mut transaction = database.begin(level);
    for key in keys {
        let put = transaction.put("curated", key.as_bytes(), b"v").await;
        put.expect("a valid record");
    }
    transaction.commit().await.expect("a cloud without faults");
}

async fn review(
    curator: &Database,
    mut judge: impl FnMut(&Proposal) -> Verdict + Send,
) -> Reviewed {
    let reviewed = curator.review("curated", &mut judge).await;
    reviewed.expect("a cloud without faults")
}

#[test]
fn records_take_effect_when_they_are_approved() {
    on_all(|model, backend| async move {
        let curator = database(&model, "curator", backend).await;
        let settings = CollectionSettings {
            is_curated: true,
            minimum: Level::Basic,
            ..small()
        };
        let created = curator.create_collection("curated", &settings).await;
        created.expect("a new collection");
        let writer = client(&model, "writer", backend).await;
        put(&writer, Level::Basic, &["a", "b"]).await;
        put(&writer, Level::Atomic, &["c", "d"]).await;
        writer.settle().await.expect("a cloud without faults");
        assert_eq!(keys(&model, backend).await, [""; 0]);

        let listed = review(&curator, |_| Verdict::Wait).await;
        assert_eq!((listed.waiting, listed.approved), (4, 0));
        let done = review(&curator, |proposal| match &proposal.key[..] {
            b"a" | b"c" => Verdict::Approve,
            b"d" => Verdict::Reject,
            _ => Verdict::Wait,
        })
        .await;
        let expected = Reviewed {
            approved: 2,
            rejected: 1,
            waiting: 1,
            damaged: 0,
        };
        assert_eq!(done, expected);
        curator.settle().await.expect("a cloud without faults");
        assert_eq!(keys(&model, backend).await, ["a", "c"]);

        let mut changes = Vec::new();
        let rest = review(&curator, |proposal| {
            changes.push(proposal.change.clone());
            Verdict::Approve
        })
        .await;
        assert_eq!(rest.approved, 1);
        assert_eq!(changes, [ProposedChange::Put("v".into())]);
        curator.settle().await.expect("a cloud without faults");
        assert_eq!(keys(&model, backend).await, ["a", "b", "c"]);
        assert_eq!(
            review(&curator, |_| Verdict::Approve).await,
            Reviewed::default()
        );
    });
}

#[test]
fn no_way_leads_around_the_curator() {
    on_all(|model, backend| async move {
        let curator = database(&model, "curator", backend).await;
        let settings = CollectionSettings {
            is_curated: true,
            minimum: Level::Basic,
            ..small()
        };
        let created = curator.create_collection("curated", &settings).await;
        created.expect("a new collection");
        let naive = CollectionSettings {
            minimum: Level::Naive,
            ..settings
        };
        let refused = curator.create_collection("naive", &naive).await;
        assert_eq!(
            refused.expect_err("it writes pages").kind,
            ErrorKind::Invalid
        );
        let loaded = curator.load("curated").await;
        assert_eq!(
            loaded.expect_err("it writes pages").kind,
            ErrorKind::Precondition
        );
        let other = curator.review("books", &mut |_| Verdict::Approve).await;
        assert_eq!(other.expect_err("not curated").kind, ErrorKind::Invalid);
    });
}
