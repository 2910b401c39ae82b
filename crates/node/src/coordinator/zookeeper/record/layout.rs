//! The nodes of a cluster and the places of its chains, once an operator has changed what it was
//! made with.
//!
//! ```text
//! layout := count site*  count spread*                                        kind L, format 1
//! site   := name zone 0 | name zone 1 | name zone 2 successor     stays, leaves, leaves to another
//!         | name zone 3                            stays, and rests (version 5 of a cluster)
//! spread := chain kept:u8 count name*
//! ```

use std::collections::BTreeMap;

use fader_chain::placement::PlacementNode;
use fader_chain::placement::layout::{ChainPlacement, Layout};
use fader_chain::{ChainId, DecodeError, Reader, put_bytes, put_varint};

use super::{CHAINS_MAX, Content, MEMBERS_MAX, NAME_MAX, text};

impl Content for Layout {
    const KIND: u8 = b'L';
    const WHAT: &'static str = "layout of a cluster";

    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.sites.len() as u64);
        for site in &self.sites {
            put_bytes(out, site.name.as_bytes());
            put_bytes(out, site.zone.as_bytes());
            match &site.successor {
                _ if site.is_resting => out.push(3),
                _ if !site.is_leaving => out.push(0),
                None => out.push(1),
                Some(successor) => {
                    out.push(2);
                    put_bytes(out, successor.as_bytes());
                }
            }
        }
        put_varint(out, self.chains.len() as u64);
        for (chain, spread) in &self.chains {
            put_varint(out, u64::from(chain.0));
            out.push(u8::from(spread.is_pinned));
            put_varint(out, spread.nodes.len() as u64);
            for name in &spread.nodes {
                put_bytes(out, name.as_bytes());
            }
        }
    }

    fn read(reader: &mut Reader, _: u8) -> Result<Self, DecodeError> {
        let count = bounded(reader, MEMBERS_MAX)?;
        let sites = (0..count).map(|_| read_site(reader));
        let sites = sites.collect::<Result<_, _>>()?;
        let count = bounded(reader, CHAINS_MAX as usize + 1)?;
        let mut chains = BTreeMap::new();
        for _ in 0..count {
            let chain = ChainId(reader.varint_u32()?);
            chains.insert(chain, read_spread(reader)?);
        }
        Ok(Layout { sites, chains })
    }
}

fn bounded(reader: &mut Reader, max: usize) -> Result<usize, DecodeError> {
    let count = reader.count()?;
    match count <= max {
        true => Ok(count),
        false => Err(DecodeError::new("the size of a layout")),
    }
}

fn read_site(reader: &mut Reader) -> Result<PlacementNode, DecodeError> {
    let (name, zone) = (text(reader, NAME_MAX)?, text(reader, NAME_MAX)?);
    let tag = reader.byte()?;
    let (is_leaving, successor) = match tag {
        0 | 3 => (false, None),
        1 => (true, None),
        2 => (true, Some(text(reader, NAME_MAX)?)),
        _ => return Err(DecodeError::new("what becomes of a node")),
    };
    Ok(PlacementNode {
        name,
        zone,
        is_leaving,
        is_resting: tag == 3,
        successor,
    })
}

fn read_spread(reader: &mut Reader) -> Result<ChainPlacement, DecodeError> {
    let is_kept = match reader.byte()? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::new("whether places are kept")),
    };
    let count = bounded(reader, MEMBERS_MAX)?;
    let nodes = (0..count).map(|_| text(reader, NAME_MAX));
    Ok(ChainPlacement {
        nodes: nodes.collect::<Result<_, _>>()?,
        is_pinned: is_kept,
    })
}

#[cfg(test)]
mod tests {
    use fader_chain::Version;
    use fader_chain::placement::PlacementPolicy;
    use fader_chain::placement::layout::{ClusterLimits, PlacementCommand};

    use super::*;

    #[test]
    fn a_layout_comes_back_from_its_bytes() {
        let policy = PlacementPolicy {
            replication_factor: 3,
            head_zone: None,
            tail_zone: None,
        };
        let sites = ["n1", "n2", "n3"].map(|name| PlacementNode {
            name: name.to_owned(),
            zone: "z".to_owned(),
            is_leaving: false,
            is_resting: false,
            successor: None,
        });
        let name = |text: &str| text.to_owned();
        let mut layout = Layout::founded(sites.to_vec(), 4, &policy);
        let orders = [
            PlacementCommand::Add(name("n4"), name("")),
            PlacementCommand::Replace(name("n1"), name("n5"), Some(name("z"))),
            PlacementCommand::Decommission(name("n2")),
            PlacementCommand::Add(name("n2"), name("")),
            PlacementCommand::Rest(name("n3"), true),
            PlacementCommand::Rest(name("n3"), false),
        ];
        for order in orders {
            let limits = ClusterLimits::of(Version::NEWEST);
            layout = layout.ordered(&order, &policy, &limits).unwrap();
            let bytes = layout.encode();
            assert_eq!(Layout::decode(&bytes), Ok(layout.clone()), "{order:?}");
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(Layout::decode(&other).is_err(), "{at}");
            }
        }
    }
}
