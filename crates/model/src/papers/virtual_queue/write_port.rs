//! A write port's block in the making: stores in any order, and the last byte sends.

/// A block a program builds in its write port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePort {
    bytes: Vec<u8>,
    stores: u64,
}

impl WritePort {
    /// An empty block of `len_bytes`.
    pub fn new(len_bytes: usize) -> WritePort {
        WritePort { bytes: vec![0; len_bytes], stores: 0 }
    }

    /// A store; a store that covers the last byte sends the block in its present state.
    ///
    /// Short data therefore need one dummy store to the last byte. Bytes keep their values from block to block.
    // FEATURE: VQ-F1 VQ-F6
    pub fn store(&mut self, offset: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let end = (offset + bytes.len()).min(self.bytes.len());
        let offset = offset.min(end);
        self.bytes[offset..end].copy_from_slice(&bytes[..end - offset]);
        self.stores += 1;
        (end == self.bytes.len() && end > offset).then(|| self.bytes.clone())
    }

    /// Stores a program has made so far.
    pub fn stores(&self) -> u64 {
        self.stores
    }
}

/// Stores a program makes to send `len_bytes` in words of eight.
pub fn stores_to_send(len_bytes: usize, block: usize) -> u64 {
    let mut port = WritePort::new(block);
    for offset in (0..len_bytes).step_by(8) {
        let word = [1; 8];
        if port.store(offset, &word[..(len_bytes - offset).min(8)]).is_some() {
            return port.stores();
        }
    }
    port.store(block - 1, &[0]);
    port.stores()
}

#[cfg(test)]
mod tests {
    use super::*;

    // FEATURE: VQ-F6
    #[test]
    fn the_last_byte_sends_and_order_is_free() {
        let mut port = WritePort::new(32);
        assert_eq!(port.store(16, &[3; 8]), None);
        assert_eq!(port.store(0, &[1; 8]), None);
        let sent = port.store(31, &[9]).expect("the last byte sends");
        assert_eq!((sent[0], sent[16], sent[31]), (1, 3, 9));
    }

    // FEATURE: VQ-F6
    #[test]
    fn short_blocks_need_one_dummy_store() {
        assert_eq!((stores_to_send(32, 32), stores_to_send(8, 32), stores_to_send(24, 32)), (4, 2, 4));
    }
}
