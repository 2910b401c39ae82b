//! Answers find who asked; a node owes a bounded number of them.

use fader_services::Failure;

use super::*;

const NODE: NodeId = NodeId(1);

fn told(why: &str) -> ForwardedReply {
    ForwardedReply::NotHere(Failure::of_words(why.to_owned()))
}

#[test]
fn an_answer_finds_its_asker_once() {
    let asks = PendingForwards::default();
    let (first, mut one) = asks.begin(NODE).unwrap();
    let (second, mut two) = asks.begin(NODE).unwrap();
    asks.answer(NodeId(2), first, told("of another node"));
    asks.answer(NODE, second, told("two"));
    asks.answer(NODE, second, told("again"));
    assert_eq!(two.try_recv().unwrap(), told("two"));
    assert!(one.try_recv().is_err());
    asks.fail(NODE);
    assert!(one.blocking_recv().is_err());
}

#[test]
fn a_node_owes_a_bounded_number_of_answers() {
    let asks = PendingForwards::default();
    let mut waiting: Vec<_> = (0..ASKS_MAX).map(|_| asks.begin(NODE).unwrap()).collect();
    assert!(asks.begin(NODE).is_none());
    assert!(asks.begin(NodeId(2)).is_some());
    waiting.pop();
    waiting.push(asks.begin(NODE).unwrap());
    assert!(asks.begin(NODE).is_none());
}
