//! Calls on arrays of queues whose extents have copies. Each holder carries them out at one place in the order of writes. So all of them have the same
//! words and ports.

use crate::memory::Bytes;
use crate::queue_arrays::QueueArray;
use crate::queue_words::QueueWords;
use hanare_protocol::wire::control::{decode, encode};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::wire::queue::{AppendFront, QueueCall, QueueChange, QueueRequest, encode_appended};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};

/// Ranges of bytes: the first of each, and how many.
type Ranges = Vec<(u64, u64)>;

/// Carries out a call. Returns its answer, or its refusal, and bytes that it may have changed.
///
/// **Cost**: that of the call. **Errors**: the refusal. [`Error::System`] where memory went away.
pub(crate) fn carry_out(extent: &impl Bytes, call: &QueueCall) -> (Result<Vec<u8>>, Ranges) {
    let mut touched = Vec::new();
    let outcome = extent.with_queues(call.offset, |array| {
        array.check_copies()?;
        match &call.what {
            QueueChange::Port { request, uid, client } => {
                touched.extend(fronts(array, touched_by(request)));
                let answer = array.answer(*request, *uid);
                if request.opens() && answer.is_ok() {
                    array.note_client(request.port().1, *client);
                }
                answer.map(|answer| encode(&answer))
            }
            QueueChange::Append { lane, operand } => append(array, *lane, operand, &mut touched),
            QueueChange::Gone { ports } => {
                touched.extend(fronts(array, ports.iter().map(|(queue, _)| *queue)));
                ports.iter().for_each(|(queue, port)| array.break_port(*queue, *port));
                Ok(Vec::new())
            }
        }
    });
    (outcome, touched)
}

/// The queue whose first bytes a request may change.
fn touched_by(request: &QueueRequest) -> Option<u64> {
    // The reader of all takes queues from the board, and changes none of them.
    (!matches!(request, QueueRequest::TakeReady { .. })).then(|| request.port().0)
}

/// The first bytes of the array and of these queues.
fn fronts<W: QueueWords>(array: &QueueArray<'_, W>, queues: impl IntoIterator<Item = u64>) -> Ranges {
    let queues = queues.into_iter().filter_map(|queue| array.front_of(queue));
    std::iter::once(array.front()).chain(queues).collect()
}

fn append<W: QueueWords>(array: &mut QueueArray<'_, W>, lane: u32, operand: &[u8], touched: &mut Ranges) -> Result<Vec<u8>> {
    let queue = AppendFront::decode(operand).ok().map(|(front, _)| front.queue);
    let before = queue.and_then(|queue| Some((queue, array.tail(queue, lane)?)));
    let appended = array.append(lane, operand);
    if let Some((queue, before)) = before {
        touched.extend(fronts(array, [queue]));
        let after = array.tail(queue, lane).unwrap_or(before);
        touched.extend(array.written((queue, lane), (before, after)));
    }
    appended.map(|(appended, head)| encode_appended(&appended, head).to_vec())
}

/// True if all holders refuse a call in the same way: their bytes are the same afterwards. Stores are refused so, too.
pub(crate) fn is_refusal(write: &ExtentWrite, error: &Error) -> bool {
    matches!(write.call, Some(ExtentCall::Queue(_) | ExtentCall::Store { .. })) && !matches!(error, Error::System { .. })
}

/// The answer to a port's request, of its bytes.
pub(crate) fn answered(outcome: Result<Vec<u8>>) -> Result<SyncAnswer> {
    let no_answer = |_| Error::Garbage { peer: "a home".to_owned(), reason: "no answer of queues".to_owned() };
    decode(&outcome?).map_err(no_answer)
}
