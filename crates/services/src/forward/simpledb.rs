//! The bytes of SimpleDB's requests, replies and errors. A code is written by its name.

use fader_chain::{DecodeError, Reader};

use super::wire::{Wire, put_choice};
use crate::Reason;
use crate::simpledb::{
    Attribute, AttributeDelete, AttributePut, BoxUsage, Code, CostedReply, DomainMetadata, Error,
    Expected, Item, ItemDelete, ItemPut, PageToken, Reply, Request,
};

impl Wire for Code {
    fn put(&self, out: &mut Vec<u8>) {
        self.name().put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let name = String::read(reader)?;
        Code::named(&name).ok_or_else(|| DecodeError::new("the code of an error"))
    }
}

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Request::CreateDomain {
                domain,
                mode,
                preference,
            } => put_choice(out, 0, &[domain, mode, preference]),
            Request::DeleteDomain { domain } => put_choice(out, 1, &[domain]),
            Request::ListDomains {
                max_count,
                next_token,
            } => put_choice(out, 2, &[max_count, next_token]),
            Request::DomainMetadata { domain } => put_choice(out, 3, &[domain]),
            Request::PutAttributes {
                domain,
                put,
                expected,
            } => put_choice(out, 4, &[domain, put, expected]),
            Request::BatchPutAttributes { domain, puts } => put_choice(out, 5, &[domain, puts]),
            Request::DeleteAttributes {
                domain,
                delete,
                expected,
            } => put_choice(out, 6, &[domain, delete, expected]),
            Request::BatchDeleteAttributes { domain, deletes } => {
                put_choice(out, 7, &[domain, deletes])
            }
            Request::GetAttributes {
                domain,
                item,
                names,
                consistent,
            } => put_choice(out, 8, &[domain, item, names, consistent]),
            Request::Select {
                expression,
                next_token,
                consistent,
            } => put_choice(out, 9, &[expression, next_token, consistent]),
            Request::ExplainSelect { expression } => put_choice(out, 10, &[expression]),
            Request::Query {
                domain,
                expression,
                max_count,
                next_token,
                attributes,
            } => put_choice(
                out,
                11,
                &[domain, expression, max_count, next_token, attributes],
            ),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Request::CreateDomain {
                domain: Wire::read(reader)?,
                mode: Wire::read(reader)?,
                preference: Wire::read(reader)?,
            },
            1 => Request::DeleteDomain {
                domain: Wire::read(reader)?,
            },
            2 => Request::ListDomains {
                max_count: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
            },
            3 => Request::DomainMetadata {
                domain: Wire::read(reader)?,
            },
            4 => Request::PutAttributes {
                domain: Wire::read(reader)?,
                put: Wire::read(reader)?,
                expected: Wire::read(reader)?,
            },
            5 => Request::BatchPutAttributes {
                domain: Wire::read(reader)?,
                puts: Wire::read(reader)?,
            },
            6 => Request::DeleteAttributes {
                domain: Wire::read(reader)?,
                delete: Wire::read(reader)?,
                expected: Wire::read(reader)?,
            },
            7 => Request::BatchDeleteAttributes {
                domain: Wire::read(reader)?,
                deletes: Wire::read(reader)?,
            },
            8 => Request::GetAttributes {
                domain: Wire::read(reader)?,
                item: Wire::read(reader)?,
                names: Wire::read(reader)?,
                consistent: Wire::read(reader)?,
            },
            9 => Request::Select {
                expression: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
                consistent: Wire::read(reader)?,
            },
            10 => Request::ExplainSelect {
                expression: Wire::read(reader)?,
            },
            11 => Request::Query {
                domain: Wire::read(reader)?,
                expression: Wire::read(reader)?,
                max_count: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
                attributes: Wire::read(reader)?,
            },
            _ => return Err(DecodeError::new("a request")),
        })
    }
}

impl Wire for Expected {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.value.put(out);
        self.exists.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Expected {
            name: Wire::read(reader)?,
            value: Wire::read(reader)?,
            exists: Wire::read(reader)?,
        })
    }
}

impl Wire for AttributePut {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.value.put(out);
        self.replace.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(AttributePut {
            name: Wire::read(reader)?,
            value: Wire::read(reader)?,
            replace: Wire::read(reader)?,
        })
    }
}

impl Wire for AttributeDelete {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.value.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(AttributeDelete {
            name: Wire::read(reader)?,
            value: Wire::read(reader)?,
        })
    }
}

impl Wire for ItemPut {
    fn put(&self, out: &mut Vec<u8>) {
        self.item.put(out);
        self.attributes.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ItemPut {
            item: Wire::read(reader)?,
            attributes: Wire::read(reader)?,
        })
    }
}

impl Wire for ItemDelete {
    fn put(&self, out: &mut Vec<u8>) {
        self.item.put(out);
        self.attributes.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ItemDelete {
            item: Wire::read(reader)?,
            attributes: Wire::read(reader)?,
        })
    }
}

impl Wire for PageToken {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(PageToken)
    }
}

impl Wire for Attribute {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.value.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Attribute {
            name: Wire::read(reader)?,
            value: Wire::read(reader)?,
        })
    }
}

impl Wire for Item {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.attributes.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Item {
            name: Wire::read(reader)?,
            attributes: Wire::read(reader)?,
        })
    }
}

impl Wire for DomainMetadata {
    fn put(&self, out: &mut Vec<u8>) {
        self.item_count.put(out);
        self.item_names_bytes.put(out);
        self.attribute_name_count.put(out);
        self.attribute_names_bytes.put(out);
        self.attribute_value_count.put(out);
        self.attribute_values_bytes.put(out);
        self.timestamp_s.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DomainMetadata {
            item_count: Wire::read(reader)?,
            item_names_bytes: Wire::read(reader)?,
            attribute_name_count: Wire::read(reader)?,
            attribute_names_bytes: Wire::read(reader)?,
            attribute_value_count: Wire::read(reader)?,
            attribute_values_bytes: Wire::read(reader)?,
            timestamp_s: Wire::read(reader)?,
        })
    }
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Done => out.push(0),
            Reply::Domains { names, next_token } => put_choice(out, 1, &[names, next_token]),
            Reply::Metadata(metadata) => put_choice(out, 2, &[metadata]),
            Reply::Attributes(attributes) => put_choice(out, 3, &[attributes]),
            Reply::Items { items, next_token } => put_choice(out, 4, &[items, next_token]),
            Reply::ItemNames { names, next_token } => put_choice(out, 5, &[names, next_token]),
            Reply::Plan(lines) => put_choice(out, 6, &[lines]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Reply::Done,
            1 => Reply::Domains {
                names: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
            },
            2 => Reply::Metadata(Wire::read(reader)?),
            3 => Reply::Attributes(Wire::read(reader)?),
            4 => Reply::Items {
                items: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
            },
            5 => Reply::ItemNames {
                names: Wire::read(reader)?,
                next_token: Wire::read(reader)?,
            },
            6 => Reply::Plan(Wire::read(reader)?),
            _ => return Err(DecodeError::new("a reply")),
        })
    }
}

impl Wire for BoxUsage {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(BoxUsage)
    }
}

impl Wire for CostedReply {
    fn put(&self, out: &mut Vec<u8>) {
        self.reply.put(out);
        self.box_usage.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(CostedReply {
            reply: Wire::read(reader)?,
            box_usage: Wire::read(reader)?,
        })
    }
}

impl Wire for Error {
    fn put(&self, out: &mut Vec<u8>) {
        self.code.put(out);
        self.message.put(out);
        self.box_usage.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let code = Wire::read(reader)?;
        let message: String = Wire::read(reader)?;
        Ok(Error {
            // The code of the reason does not travel: the sentence does.
            reason: (code == Code::ServiceUnavailable).then(|| Reason::of(&message)),
            code,
            message,
            box_usage: Wire::read(reader)?,
        })
    }
}
