//! Bytes that copies need of other nodes: this node asks for them as a client would.

use super::command::{AdmittedCommand, Location};
use super::memory::{CommandMemory, Execution};
use hanare_protocol::copies::Once;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{BATCH_COUNT_MAX, BODY_LEN_MAX, LIST_LEN_MAX};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op, dims_list, index_bytes};

/// Bytes that one request asks another node for.
#[derive(Debug)]
pub struct Fetch<E> {
    /// Address of that node.
    pub address: String,
    /// The node.
    pub node: NodeId,
    /// Its commands and their lists, as they travel.
    pub commands: Vec<u8>,
    /// See `commands`.
    pub lists: Vec<u8>,
    /// Targets of the bytes, in order.
    pub targets: Vec<FetchTarget<E>>,
}

/// Bytes of an extent that a fetch writes. They keep the extent as long as the command did.
#[derive(Clone, Debug)]
pub struct FetchTarget<E> {
    /// The extent.
    pub extent: E,
    /// The bytes.
    pub shape: Checked<'static>,
    /// Its first byte in its call, where that has a number.
    pub call: Option<Once>,
}

impl<E: Clone> Fetch<E> {
    /// The fetches that a message's copies need, as few as limits allow. Their sources are done as far as the message is concerned.
    pub(super) fn all<M: CommandMemory<Extent = E>>(commands: &mut [AdmittedCommand<M>]) -> Vec<Fetch<E>> {
        let mut all: Vec<Fetch<E>> = Vec::new();
        for index in 0..commands.len() {
            let Location::Elsewhere(command) = commands[index].location else { continue };
            let (from, to) = (&commands[index], &commands[index + 1]);
            let address = std::str::from_utf8(from.execution.held()).unwrap_or_default().to_owned();
            let list = list_of(from.shape.shape());
            let fits = |fetch: &Fetch<E>| {
                fetch.address == address
                    && fetch.targets.len() < BATCH_COUNT_MAX
                    && (fetch.lists.len() + list.len()) as u64 <= LIST_LEN_MAX
                    && fetch.stream_len() + to.stream_len() <= BODY_LEN_MAX
            };
            if !all.last().is_some_and(fits) {
                let node = NodeId(command.node);
                all.push(Fetch { address, node, commands: Vec::new(), lists: Vec::new(), targets: Vec::new() });
            }
            let fetch = all.last_mut().expect("one was made");
            fetch.commands.extend_from_slice(&Command { op: Op::Get, ..command }.encode());
            fetch.lists.extend_from_slice(&list);
            fetch.targets.push(FetchTarget { extent: to.extent().clone(), shape: to.shape.clone(), call: to.once(0) });
            commands[index].finish();
        }
        all
    }
}

impl<E> Fetch<E> {
    /// Bytes that it asks for.
    pub fn stream_len(&self) -> u64 {
        self.targets.iter().map(|target| target.shape.len()).sum()
    }

    /// Number of its commands.
    pub fn command_count(&self) -> u32 {
        (self.commands.len() / COMMAND_LEN) as u32
    }
}

/// A shape's list as it travels.
fn list_of(shape: &Shape<'_>) -> Vec<u8> {
    let mut list = match shape {
        Shape::Strided(_) => Vec::new(),
        Shape::Subarray(shape) => dims_list(shape),
        Shape::Indexed(shape) => index_bytes(&shape.indices).to_vec(),
    };
    list.resize(list.len().next_multiple_of(8), 0);
    list
}
