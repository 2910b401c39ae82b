//! Anything that a member says that has the cluster's key, and a stranger before: understood or
//! refused.

use std::io::Cursor;

use bytes::Bytes;
use fader_chain::put_varint;
use fader_fuzz::{Corpus, run};
use fader_services::ErrorCode;

use super::super::noise::{Handshake, KEY_SIZE};
use super::super::record::{Lane, Opener, Sealer, put_message};
use super::*;
use crate::storage::blocks::{Block, BlockBytes};

const WORDS: &[&[u8]] = &[
    b"\xFF\xFF\xFF\xFF",
    b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
    b"\x00\x00\x00\x02",
    b"\x00\x00\x00\x00",
    b"000000000001",
];

/// Bodies as members send them, one of each kind.
fn bodies() -> Vec<Vec<u8>> {
    let mut envelope = vec![outgoing::KIND_ENVELOPE];
    put_varint(&mut envelope, u64::from(CHAIN.0));
    confirm(1, 7).encode(&mut envelope);
    let request = |asked: &ForwardedRequest| {
        let mut body = vec![outgoing::KIND_REQUEST];
        [u64::from(CHAIN.0), 3, 5000]
            .into_iter()
            .for_each(|number| put_varint(&mut body, number));
        body.extend(asked.encode());
        body
    };
    let mut answer = vec![outgoing::KIND_ANSWER];
    put_varint(&mut answer, 3);
    answer.extend(named("a name").encode(Version::NEWEST));
    let withdrawal = vec![outgoing::KIND_WITHDRAWAL, 3];
    let mut clock = vec![outgoing::KIND_CLOCK];
    clock.extend(7_u128.to_be_bytes());
    put_varint(&mut clock, 0);
    put_varint(&mut clock, 1_000_000);
    vec![
        envelope,
        request(&read("q")),
        request(&write()),
        answer,
        withdrawal,
        clock,
    ]
}

/// Takes anything that comes.
struct Deaf;

impl Inbox for Deaf {
    fn deliver(&self, _: ChainId, _: Envelope) {}

    fn serve(&self, _: ChainId, _: ForwardedRequest, _: Duration, reply: Reply) {
        reply.send(&named("q"));
    }

    fn withdraw(&self, _: NodeId, _: Option<u64>) {}

    fn blocks(&self, _: ChainId, _: BlockAsked) -> BlockTold {
        BlockTold::Missing
    }
}

/// Sealed by a member: the frames open, with any content.
#[test]
fn fuzz_peer_messages() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let key = ClusterKey::random().unwrap();
    let peers = Peers::start(listener, identity(2), CLUSTER, SESSION, key, Arc::new(Deaf)).unwrap();
    let common = &peers.common;
    let traffic = common.traffic(NodeId(1));
    let lanes: Vec<Vec<u8>> = bodies()
        .iter()
        .map(|body| {
            let mut lane = Vec::new();
            put_message(&mut lane, |out| out.extend_from_slice(body));
            lane
        })
        .collect();
    let seeds: Vec<&[u8]> = lanes.iter().map(|lane| &**lane).collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: WORDS,
    };
    let cipher = || Handshake::new(&[7; KEY_SIZE], b"").split().0;
    run("peer messages", &corpus, |input| {
        let (mut sealer, mut opener) = (Sealer::new(cipher()), Opener::new(cipher()));
        let mut frames = Vec::new();
        sealer.frames(Lane::Prompt, input, &mut frames);
        let mut stream = Cursor::new(frames);
        let mut take = |body: Bytes| incoming::take(body, NodeId(1), &traffic, common);
        while opener.read(&mut stream, &mut take).is_ok() {}
    });
    peers.close();
}

/// The bodies themselves, without the sizes around them: a mutation reaches further in.
#[test]
fn fuzz_peer_bodies() {
    let bodies = bodies();
    let seeds: Vec<&[u8]> = bodies.iter().map(|body| &body[1..]).collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: WORDS,
    };
    run("peer bodies", &corpus, |input| {
        let bytes = Bytes::copy_from_slice(input);
        let _ = Envelope::decode(bytes.clone());
        let _ = ForwardedReply::decode(bytes.clone());
        if let Ok(asked) = ForwardedRequest::decode(bytes) {
            // What is understood can be said again.
            let said = asked.encode();
            assert!(ForwardedRequest::decode(said).is_ok());
        }
    });
}

/// Questions and answers about blocks.
#[test]
fn fuzz_block_messages() {
    let block = Block::of(BlockId(7), b"bytes");
    let asked = [
        BlockAsked::Hold(
            block,
            BlockBytes::of(BlockId(7), vec![Bytes::from_static(b"bytes")]),
        ),
        BlockAsked::Gone(vec![BlockId(7), BlockId(8)]),
        BlockAsked::List(None),
        BlockAsked::List(Some(BlockId(7))),
        BlockAsked::Fetch(BlockId(7), None),
        BlockAsked::Fetch(BlockId(7), Some(1..3)),
    ];
    let told = [
        BlockTold::Held,
        BlockTold::Bytes(Bytes::from_static(b"bytes")),
        BlockTold::Gone,
        BlockTold::These(vec![BlockId(7)]),
        BlockTold::Rows(vec![(BlockId(7), 300)]),
        BlockTold::Failed {
            code: ErrorCode::Refused(Reason::Store),
            detail: "full".to_owned(),
        },
        BlockTold::UnknownCode("of-tomorrow".to_owned()),
    ];
    let said = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for asked in &asked {
        let body = said(&|out| asked.encode(ChainId(3), out));
        let read = BlockAsked::decode(body.clone().into()).unwrap();
        assert_eq!(read, (ChainId(3), asked.clone()));
        bodies.push(body);
    }
    for told in &told {
        let body = said(&|out| told.encode(Version::NEWEST, out));
        assert_eq!(BlockTold::decode(body.clone().into()).unwrap(), *told);
        bodies.push(body);
    }
    let seeds: Vec<&[u8]> = bodies.iter().map(|body| &**body).collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: WORDS,
    };
    run("block messages", &corpus, |input| {
        let bytes = Bytes::copy_from_slice(input);
        let _ = BlockTold::decode(bytes.clone());
        if let Ok((chain, asked)) = BlockAsked::decode(bytes) {
            let again = said(&|out| asked.encode(chain, out));
            assert_eq!(BlockAsked::decode(again.into()).unwrap(), (chain, asked));
        }
    });
}

/// By who has no key: no frame opens.
#[test]
fn fuzz_peer_frames() {
    let cipher = |key| Handshake::new(&[key; KEY_SIZE], b"").split().0;
    let mut frames = Vec::new();
    let mut sealer = Sealer::new(cipher(7));
    sealer.frames(Lane::Bulk, &bodies().concat(), &mut frames);
    sealer.sign_of_life(&mut frames);
    let corpus = Corpus {
        seeds: &[&frames],
        words: WORDS,
    };
    run("peer frames", &corpus, |input| {
        let mut opener = Opener::new(cipher(8));
        let mut take = |_| panic!("a frame of another key opened");
        assert!(opener.read(&mut Cursor::new(input), &mut take).is_err());
    });
}
