//! The bytes of requests, replies and refusals of any service: its byte, and its own.

use fader_chain::{DecodeError, Reader};

use super::wire::Wire;
use crate::request::{Refusal, Reply, Request, ServiceName};
use crate::service::Place;

/// Reads one of the services' own types, by the service's byte.
macro_rules! read_as {
    ($reader:expr, $of:ident) => {
        Ok(match ServiceName::read($reader)? {
            ServiceName::SimpleDb => $of::SimpleDb(Wire::read($reader)?),
            ServiceName::Catalog => $of::Catalog(Wire::read($reader)?),
            ServiceName::Step => $of::Step(Wire::read($reader)?),
            ServiceName::Sqs => $of::Sqs(Wire::read($reader)?),
            ServiceName::S3 => $of::S3(Wire::read($reader)?),
            ServiceName::Block => $of::Block(Wire::read($reader)?),
            ServiceName::Export => $of::Export(Wire::read($reader)?),
            #[cfg(feature = "counter")]
            ServiceName::Counter => $of::Counter(Wire::read($reader)?),
        })
    };
}

/// Writes one, after the service's byte.
macro_rules! put_as {
    ($it:expr, $of:ident, $out:expr) => {{
        $it.service().put($out);
        match $it {
            $of::SimpleDb(it) => it.put($out),
            $of::Catalog(it) => it.put($out),
            $of::Step(it) => it.put($out),
            $of::Sqs(it) => it.put($out),
            $of::S3(it) => it.put($out),
            $of::Block(it) => it.put($out),
            $of::Export(it) => it.put($out),
            #[cfg(feature = "counter")]
            $of::Counter(it) => it.put($out),
        }
    }};
}

impl Wire for ServiceName {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            ServiceName::SimpleDb => 0,
            ServiceName::Catalog => 1,
            ServiceName::Step => 2,
            ServiceName::Sqs => 3,
            ServiceName::S3 => 4,
            ServiceName::Block => 5,
            ServiceName::Export => 6,
            #[cfg(feature = "counter")]
            ServiceName::Counter => 255,
        });
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => ServiceName::SimpleDb,
            1 => ServiceName::Catalog,
            2 => ServiceName::Step,
            3 => ServiceName::Sqs,
            4 => ServiceName::S3,
            5 => ServiceName::Block,
            6 => ServiceName::Export,
            #[cfg(feature = "counter")]
            255 => ServiceName::Counter,
            _ => return Err(DecodeError::new("a service")),
        })
    }
}

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        put_as!(self, Request, out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        read_as!(reader, Request)
    }
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        put_as!(self, Reply, out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        read_as!(reader, Reply)
    }
}

impl Wire for Refusal {
    fn put(&self, out: &mut Vec<u8>) {
        put_as!(self, Refusal, out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        read_as!(reader, Refusal)
    }
}

impl Wire for Place {
    fn put(&self, out: &mut Vec<u8>) {
        self.chain.put(out);
        self.collection.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Place {
            chain: Wire::read(reader)?,
            collection: Wire::read(reader)?,
        })
    }
}
