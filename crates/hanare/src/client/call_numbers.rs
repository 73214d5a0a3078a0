//! Numbers of calls whose updates count once. The next home of bytes with copies knows by them what was done before.

use hanare_protocol::Result;
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::limits::CALL_NUMBER_MAX;
use hanare_protocol::wire::head::encode_call;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of one attachment to a pool.
pub(crate) struct CallNumbers {
    /// The attachment, for homes: nobody can guess it.
    client: u64,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    last: u64,
    /// Sequences that have begun.
    sequences: usize,
    /// Sequences without a call under way.
    free: Vec<u16>,
}

/// A call, until it has its result.
pub(crate) struct NumberedCall {
    numbers: Arc<CallNumbers>,
    sequence: u16,
    number: u64,
    was_sent: bool,
}

impl CallNumbers {
    /// **Errors**: the system has no random bytes.
    pub fn new() -> Result<Arc<CallNumbers>> {
        let client = u64::from_le_bytes(hanare_memory::random::bytes()?);
        Ok(Arc::new(CallNumbers { client, numbers: Mutex::default() }))
    }

    /// The attachment, for homes.
    pub fn client(&self) -> u64 {
        self.client
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call, in a sequence that has none under way. `None` when no number is left, or no sequence.
    pub fn begin(self: &Arc<Self>) -> Option<NumberedCall> {
        let mut numbers = self.lock();
        let number = Some(numbers.last + 1).filter(|number| *number <= CALL_NUMBER_MAX)?;
        let sequence = numbers.take_sequence()?;
        numbers.last = number;
        Some(NumberedCall { numbers: self.clone(), sequence, number, was_sent: false })
    }
}

impl Numbers {
    fn take_sequence(&mut self) -> Option<u16> {
        let free = self.free.pop();
        free.or_else(|| {
            let new = u16::try_from(self.sequences).ok()?;
            self.sequences += 1;
            Some(new)
        })
    }
}

impl NumberedCall {
    /// Its part of a head's detail: the next time it is a repetition.
    pub fn detail(&mut self) -> u64 {
        let UpdateCall { sequence, number, is_repeat, .. } = self.named();
        encode_call(sequence, number, is_repeat)
    }

    /// The same with the attachment.
    pub fn named(&mut self) -> UpdateCall {
        let is_repeat = std::mem::replace(&mut self.was_sent, true);
        UpdateCall { client: self.numbers.client, sequence: self.sequence, number: self.number, is_repeat }
    }
}

impl Drop for NumberedCall {
    fn drop(&mut self) {
        self.numbers.lock().free.push(self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::limits::CALL_SEQUENCE_COUNT_MAX;
    use hanare_protocol::wire::head::decode_call;

    #[test]
    fn a_sequence_has_one_call_under_way() {
        let numbers = CallNumbers::new().unwrap();
        let name = u128::from(numbers.client()) << 64;
        let read = |call: &mut NumberedCall| decode_call(call.detail(), name).unwrap();
        let (mut first, mut second) = (numbers.begin().unwrap(), numbers.begin().unwrap());
        let call = |sequence, number| UpdateCall { client: numbers.client(), sequence, number, is_repeat: false };
        assert_eq!((read(&mut second), read(&mut first)), (call(1, 2), call(0, 1)));
        drop(first);
        assert_eq!(read(&mut second), UpdateCall { is_repeat: true, ..call(1, 2) });
        assert_eq!(read(&mut numbers.begin().unwrap()), call(0, 3));
    }

    #[test]
    fn calls_beyond_all_sequences_have_no_number() {
        let numbers = CallNumbers::new().unwrap();
        let mut calls: Vec<NumberedCall> = (0..CALL_SEQUENCE_COUNT_MAX).map_while(|_| numbers.begin()).collect();
        assert!(calls.len() == CALL_SEQUENCE_COUNT_MAX && numbers.begin().is_none());
        calls.pop();
        assert!(numbers.begin().is_some());
    }
}
