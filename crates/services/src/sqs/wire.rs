//! How the parts of queues become bytes: structures are their fields in order, choices a byte and
//! what follows from it.

/// Gives a structure the bytes of its fields, in this order.
macro_rules! wire_fields {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::forward::wire::Wire for $type {
            #[allow(unused_variables, reason = "a structure may have no fields")]
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::forward::wire::Wire::put(&self.$field, out);)*
            }

            #[allow(unused_variables, reason = "a structure may have no fields")]
            fn read(reader: &mut fader_chain::Reader) -> Result<Self, fader_chain::DecodeError> {
                Ok($type { $($field: $crate::forward::wire::Wire::read(reader)?),* })
            }
        }
    };
}

/// Gives a choice the bytes of its number and of the one thing that follows from it.
macro_rules! wire_choice {
    ($type:ident, $what:literal, {
        $($number:literal => $variant:ident $(($inner:ident))?),* $(,)?
    }) => {
        impl $crate::forward::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant $(($inner))? => {
                        out.push($number);
                        $($crate::forward::wire::Wire::put($inner, out);)?
                    })*
                }
            }

            fn read(reader: &mut fader_chain::Reader) -> Result<Self, fader_chain::DecodeError> {
                Ok(match reader.byte()? {
                    $($number => $type::$variant $(({
                        let $inner = $crate::forward::wire::Wire::read(reader)?;
                        $inner
                    }))?,)*
                    _ => return Err(fader_chain::DecodeError::new($what)),
                })
            }
        }
    };
}

pub(crate) use {wire_choice, wire_fields};
