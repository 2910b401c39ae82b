//! Two accounts on one node. One asks anything, under any names, at any levels and in any sessions;
//! the other is answered as if it were alone (XO-7).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;

use std::hash::{DefaultHasher, Hash, Hasher};

use fader_chain::RequestId;
use fader_node::{Call, Durability, Node, Settings};
use fader_services::Mode;
use fader_services::catalog::AccountId;
use fader_services::level::{ConsistencyOptions, Level};
use fader_services::simpledb::{AttributePut, Expected, ItemPut, Request};
use proptest::prelude::*;

use asking::Ask as _;

const SEQS: [u64; 8] = [1, 2, 3, 1_000, 1_200, 2_000_000, u64::MAX - 1, u64::MAX];

/// One request of one of the accounts.
#[derive(Clone, Debug)]
struct Step {
    is_first: bool,
    act: u8,
    item: u8,
    value: u8,
    level: u8,
    name: Option<(u8, usize)>,
    is_in_session: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = prop::option::weighted(0.7, (0..2_u8, 0..SEQS.len()));
    let what = (0..5_u8, 0..2_u8, 0..2_u8, 0..4_u8);
    (any::<bool>(), what, name, any::<bool>()).prop_map(|(is_first, what, name, is_in_session)| {
        let (act, item, value, level) = what;
        Step {
            is_first,
            act,
            item,
            value,
            level,
            name,
            is_in_session,
        }
    })
}

fn request(step: &Step) -> Request {
    let (domain, item) = ("carts".to_owned(), format!("i{}", step.item));
    let attribute = AttributePut {
        name: Some("a".to_owned()),
        value: Some(step.value.to_string()),
        replace: step.item == 1,
    };
    let put = ItemPut {
        item: Some(item.clone()),
        attributes: vec![attribute],
    };
    let expected = Expected {
        name: Some("a".to_owned()),
        value: Some("0".to_owned()),
        exists: None,
    };
    match step.act {
        0 | 1 => Request::PutAttributes {
            domain,
            put,
            expected: Vec::new(),
        },
        2 => Request::PutAttributes {
            domain,
            put,
            expected: vec![expected],
        },
        3 => Request::Select {
            expression: "select * from carts".to_owned(),
            next_token: None,
            consistent: false,
        },
        _ => Request::GetAttributes {
            domain,
            item,
            names: Vec::new(),
            consistent: false,
        },
    }
}

/// A client of an account, and what it was told.
struct Client {
    account: AccountId,
    session: Option<bytes::Bytes>,
    /// Versions and stamps in the order in which they were told. Which of them is told again is the
    /// account's matter, which number they have the store's.
    places: Vec<String>,
    told: Vec<String>,
}

impl Client {
    async fn of(node: &Node, account: &str) -> Client {
        let account = AccountId(account.to_owned());
        let create = Request::CreateDomain {
            domain: "carts".to_owned(),
            mode: Some(Mode::Mixed),
            preference: None,
        };
        let (created, _) = node
            .ask(Call::new(&account, create, ConsistencyOptions::default()))
            .await;
        created.unwrap();
        Client {
            account,
            session: None,
            places: Vec::new(),
            told: Vec::new(),
        }
    }

    async fn ask(&mut self, node: &Node, step: &Step) {
        let request = request(step);
        let is_read = 3 <= step.act;
        let level = match step.level {
            0 => Level::Default,
            1 => Level::Strong,
            2 => Level::Barrier,
            _ => Level::EVENTUAL,
        };
        let mut digest = DefaultHasher::new();
        (&self.account, format!("{request:?}")).hash(&mut digest);
        let name = step.name.filter(|_| !is_read);
        let consistency = ConsistencyOptions {
            level,
            session: step
                .is_in_session
                .then(|| self.session.clone().unwrap_or_default()),
            request: name.map(|(client, seq)| RequestId {
                client: u128::from(client).into(),
                seq: SEQS[seq],
                part: 0,
            }),
            digest: u128::from(digest.finish()),
            // It is settled before the next one is asked: so what is shown does not depend on when.
            outcome: !is_read,
            ..ConsistencyOptions::default()
        };
        let (answered, metadata) = node
            .ask(Call::new(&self.account, request, consistency))
            .await;
        self.session = metadata.session.clone().or(self.session.take());
        let version = metadata
            .version
            .map(|version| self.place(version.to_string()));
        let stamp = metadata.stamp.map(|stamp| self.place(format!("{stamp:?}")));
        let said = match answered {
            Ok(answered) => format!("{:?}", answered.reply),
            Err(error) => format!("{error:?}"),
        };
        self.told.push(format!(
            "{step:?}: {said}, version {version:?}, stamp {stamp:?}, outcome {:?}, tentative {}, \
             settled {:?}",
            metadata.outcome, metadata.tentative, metadata.settled
        ));
    }

    fn place(&mut self, place: String) -> usize {
        let known = self.places.iter().position(|known| *known == place);
        known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        })
    }
}

/// What each account is told when these ask.
async fn told(steps: &[Step], ask: impl Fn(&Step) -> bool) -> [Vec<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        durability: Durability::Os,
        segment_bytes: 1 << 20,
        ..Settings::new(folder.path().to_owned())
    };
    let node = Node::open(settings).unwrap().0;
    let mut first = Client::of(&node, "000000000001").await;
    let mut second = Client::of(&node, "000000000002").await;
    for step in steps.iter().filter(|step| ask(step)) {
        let client = if step.is_first {
            &mut first
        } else {
            &mut second
        };
        client.ask(&node, step).await;
    }
    node.close().await;
    [first.told, second.told]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn each_account_is_answered_as_if_it_were_alone(
        steps in prop::collection::vec(any_step(), 2..24)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let [first, second] = told(&steps, |_| true).await;
            let [first_alone, _] = told(&steps, |step| step.is_first).await;
            let [_, second_alone] = told(&steps, |step| !step.is_first).await;
            prop_assert_eq!(first, first_alone);
            prop_assert_eq!(second, second_alone);
            Ok(())
        })?;
    }
}
