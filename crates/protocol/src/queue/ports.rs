//! The ports of an array of queues as a value. A node that is made a copy gets them from its home, and has them if it becomes the home.
//!
//! The home alone knows the connections of ports. Its successor knows none: it asks the nodes of their programs whether those live.

use super::home::{Home, Lane, LaneState, PortId, ReaderState, Reading, Store};
use super::layout::QueueForm;
use crate::id::ClientId;
use crate::limits::{QUEUE_CLAIM_COUNT_MAX, QUEUE_PORT_COUNT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Programs of ports that left, beyond as many as there are ports: then those are forgotten.
const GONE_CLIENT_COUNT: usize = 64;

/// The ports of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortTable {
    /// First byte of the array in its extent.
    pub at: u64,
    /// The form of its queues.
    pub form: QueueForm,
    /// Their number.
    pub count: u64,
    lanes: Vec<LanePort>,
    readers: Vec<ReadPort>,
    clients: Vec<(PortId, ClientId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LanePort {
    queue: u64,
    lane: u32,
    state: LaneState,
    writer: PortId,
    uid: u32,
    accepted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReadPort {
    first: u64,
    count: u64,
    port: PortId,
    state: ReaderState,
}

/// A port that is not known to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Its queue, or the first of several.
    pub queue: u64,
    /// Its number.
    pub id: PortId,
    /// Its program, as far as that is known.
    pub client: Option<ClientId>,
}

impl PortTable {
    /// The ports that are not known to be gone.
    pub fn open_ports(&self) -> impl Iterator<Item = OpenPort> {
        let client: BTreeMap<PortId, ClientId> = self.clients.iter().copied().collect();
        let writers = self.lanes.iter().filter(|port| port.state == LaneState::Open).map(|port| (port.queue, port.writer));
        let readers = self.readers.iter().filter(|port| port.state == ReaderState::Held).map(|port| (port.first, port.port));
        writers.chain(readers).map(move |(queue, id)| OpenPort { queue, id, client: client.get(&id).copied() })
    }
}

impl<S: Store> Home<S> {
    /// Its ports, of an array that begins there, with its number of queues. Spilled units and links are not among them.
    pub fn table(&self, at: u64, count: u64) -> PortTable {
        let lanes = self.lanes.iter().map(|((queue, lane), entry)| LanePort {
            queue: *queue,
            lane: *lane,
            state: entry.state,
            writer: entry.writer,
            uid: entry.uid,
            accepted: entry.accepted,
        });
        let readers = self.readers.iter();
        let readers = readers.map(|(first, Reading { count, port, state })| ReadPort {
            first: *first,
            count: *count,
            port: *port,
            state: *state,
        });
        let clients = self.known_clients().into_iter().collect();
        PortTable { at, form: self.form(), count, lanes: lanes.collect(), readers: readers.collect(), clients }
    }

    /// An array with the ports of a table. `None` for a table that no home gives.
    pub fn of_table(name: String, table: &PortTable) -> Option<Home<S>> {
        let is_lane = |port: &LanePort| port.queue < table.count && port.lane < table.form.ports.min(QUEUE_PORT_COUNT_MAX);
        let is_reader =
            |port: &ReadPort| port.count > 0 && port.first.checked_add(port.count).is_some_and(|end| end <= table.count);
        let are_apart = |two: &[ReadPort]| matches!(two, [one, next] if one.first.saturating_add(one.count) <= next.first);
        let are_few = table.lanes.len() <= QUEUE_CLAIM_COUNT_MAX && table.readers.len() <= QUEUE_CLAIM_COUNT_MAX;
        if !are_few
            || !table.lanes.iter().all(is_lane)
            || !table.readers.iter().all(is_reader)
            || !table.readers.windows(2).all(are_apart)
        {
            return None;
        }
        let mut home = Home::new(name, table.form);
        let lane = |port: &LanePort| {
            let LanePort { queue, lane, state, writer, uid, accepted } = *port;
            ((queue, lane), Lane { state, writer, uid, accepted, link: None, spill: None })
        };
        home.lanes = table.lanes.iter().map(lane).collect();
        let reader = |port: &ReadPort| (port.first, Reading { count: port.count, port: port.port, state: port.state });
        home.readers = table.readers.iter().map(reader).collect();
        home.clients = table.clients.iter().copied().collect();
        home.forget_clients();
        Some(home)
    }

    /// A port is of that program.
    pub fn note_client(&mut self, port: PortId, client: ClientId) {
        self.clients.insert(port, client);
        let ports = self.lanes.len().saturating_add(self.readers.len());
        if self.clients.len() > ports.saturating_mul(2).saturating_add(GONE_CLIENT_COUNT) {
            self.forget_clients();
        }
    }

    /// Forgets the programs of ports that left.
    fn forget_clients(&mut self) {
        self.clients = self.known_clients();
    }

    /// The programs of ports that are there.
    fn known_clients(&self) -> BTreeMap<PortId, ClientId> {
        let ports = self.lanes.values().map(|lane| lane.writer).chain(self.readers.values().map(|reading| reading.port));
        ports.filter_map(|port| Some((port, *self.clients.get(&port)?))).collect()
    }

    /// The lane of a queue that a writer has, over a connection that is there.
    pub fn lane_of(&self, queue: u64, writer: PortId) -> Option<u32> {
        let mut lanes = self.lanes.range((queue, 0)..=(queue, u32::MAX));
        lanes.find(|(_, lane)| lane.writer == writer && lane.state == LaneState::Open).map(|((_, lane), _)| *lane)
    }

    /// The first queue of a reader that reads that one, over a connection that is there.
    pub fn first_of(&self, queue: u64, reader: PortId) -> Option<u64> {
        let (first, _) = self.readers.range(..=queue).next_back()?;
        self.reads(queue, reader).then_some(*first)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::queue::explore::Kept;
    use crate::queue::{Overflow, Unit};

    const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 2, overflow: Overflow::Wait };

    fn used() -> Home<Kept> {
        let mut home = Home::new("a".to_owned(), FORM);
        home.open_lane(3, PortId(1), 7).unwrap();
        home.open_lane(3, PortId(2), 7).unwrap();
        home.open_reader(2, 2, PortId(3)).unwrap();
        home.open_reader(5, 1, PortId(4)).unwrap();
        (1..=4).for_each(|port| home.note_client(PortId(port), ClientId(port % 2)));
        assert!(home.break_lane(3, 1, PortId(2)) && home.break_reader(5, PortId(4)).is_some());
        home
    }

    #[test]
    fn an_array_has_the_same_ports_behind_its_table() {
        let home = used();
        let table = home.table(64, 6);
        let next = Home::of_table("a".to_owned(), &table).unwrap();
        assert_eq!(home, next);
        assert_eq!(crate::wire::control::decode::<PortTable>(&crate::wire::control::encode(&table)), Ok(table.clone()));
        let open: Vec<_> = table.open_ports().map(|port| (port.queue, port.id.0, port.client)).collect();
        assert_eq!(open, [(3, 1, Some(ClientId(1))), (2, 3, Some(ClientId(1)))]);
        assert_eq!((next.lane_of(3, PortId(1)), next.lane_of(3, PortId(2)), next.lane_of(2, PortId(1))), (Some(0), None, None));
        assert_eq!([2, 3, 4].map(|queue| next.first_of(queue, PortId(3))), [Some(2), Some(2), None]);
    }

    #[test]
    fn a_table_that_no_home_gives_is_none() {
        let table = used().table(0, 6);
        let read = |change: &dyn Fn(&mut PortTable)| {
            let mut table = table.clone();
            change(&mut table);
            Home::<Kept>::of_table("a".to_owned(), &table)
        };
        assert!(read(&|_| {}).is_some());
        assert!(read(&|table| table.count = 3).is_none());
        assert!(read(&|table| table.lanes[0].lane = 2).is_none());
        assert!(read(&|table| table.readers[0].count = 0).is_none());
        assert!(read(&|table| table.readers[0].count = 4).is_none());
        assert!(read(&|table| table.readers[0].first = u64::MAX).is_none());
    }

    #[test]
    fn programs_of_ports_that_left_are_forgotten() {
        let mut home = Home::<Kept>::new("a".to_owned(), FORM);
        for port in 1..1000 {
            home.open_lane(0, PortId(port), 7).unwrap();
            home.note_client(PortId(port), ClientId(1));
            assert!(home.close_lane(0, 0, PortId(port)));
        }
        assert!(home.clients.len() <= GONE_CLIENT_COUNT + 2, "{}", home.clients.len());
    }
}
