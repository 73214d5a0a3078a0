//! Numbers of calls whose updates count once. The next home of bytes with copies knows by them what was done before.

use hanare_protocol::Result;
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::limits::CALL_NUMBER_MAX;
use hanare_protocol::wire::head::encode_call;
use std::collections::BTreeSet;
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
    /// Calls without their results.
    under_way: BTreeSet<u64>,
}

/// A call, until it has its result.
pub(crate) struct NumberedCall {
    numbers: Arc<CallNumbers>,
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

    /// Begins a call. `None` when all numbers are used.
    pub fn begin(self: &Arc<Self>) -> Option<NumberedCall> {
        let mut numbers = self.lock();
        let number = Some(numbers.last + 1).filter(|number| *number <= CALL_NUMBER_MAX)?;
        numbers.last = number;
        numbers.under_way.insert(number);
        Some(NumberedCall { numbers: self.clone(), number, was_sent: false })
    }
}

impl NumberedCall {
    /// Its part of a head's detail: the next time it is a repetition.
    pub fn detail(&mut self) -> u64 {
        let UpdateCall { number, lowest, is_repeat, .. } = self.named();
        encode_call(number, lowest, is_repeat)
    }

    /// The same with the attachment.
    pub fn named(&mut self) -> UpdateCall {
        let lowest = self.numbers.lock().under_way.first().copied().unwrap_or(self.number);
        let is_repeat = std::mem::replace(&mut self.was_sent, true);
        UpdateCall { client: self.numbers.client, number: self.number, lowest, is_repeat }
    }
}

impl Drop for NumberedCall {
    fn drop(&mut self) {
        self.numbers.lock().under_way.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::head::decode_call;

    #[test]
    fn a_call_says_which_calls_have_their_results() {
        let numbers = CallNumbers::new().unwrap();
        let name = u128::from(numbers.client()) << 64;
        let read = |call: &mut NumberedCall| decode_call(call.detail(), name).unwrap();
        let (mut first, mut second) = (numbers.begin().unwrap(), numbers.begin().unwrap());
        let client = numbers.client();
        assert_eq!(read(&mut second), UpdateCall { client, number: 2, lowest: 1, is_repeat: false });
        assert_eq!(read(&mut first), UpdateCall { client, number: 1, lowest: 1, is_repeat: false });
        drop(first);
        assert_eq!(read(&mut second), UpdateCall { client, number: 2, lowest: 2, is_repeat: true });
        drop(second);
        assert_eq!(read(&mut numbers.begin().unwrap()).lowest, 3);
    }
}
