//! Bytes of a message as one value, where a list would be read and written byte by byte. Both look the same on the wire.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Writes them. **Cost**: a copy.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Reads them. **Cost**: a copy.
pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Packed(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn bytes_look_like_a_list_of_them() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let packed = crate::wire::control::encode(&Packed(bytes.clone()));
        assert_eq!(packed, crate::wire::control::encode(&bytes));
        assert_eq!(crate::wire::control::decode(&packed), Ok(Packed(bytes)));
    }
}
