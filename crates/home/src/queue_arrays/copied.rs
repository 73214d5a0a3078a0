//! Arrays whose extents have copies: their ports as values, and bytes that calls change.

use super::{InUse, QueueArray, QueueArrays, name_of};
use crate::queue_words::QueueWords;
use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::queue::layout::{TAIL_AT, WORD_LEN};
use hanare_protocol::queue::{Home, Overflow, PortId, PortTable, Store};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;

impl<S: Store> QueueArrays<S> {
    /// The ports of all arrays.
    pub fn tables(&self) -> Vec<PortTable> {
        self.used.iter().map(|(at, known)| known.rules.table(*at, known.count)).collect()
    }

    /// Takes the ports that a home has told of, for a region's extent of that length. Its own go. False for tables that no home gives.
    pub fn set_tables(&mut self, (gid, extent_len): (Gid, u64), tables: &[PortTable]) -> bool {
        let mut used = BTreeMap::new();
        let mut free_at = 0;
        for table in tables {
            let len = table.form.check().and_then(|()| table.form.array_len(table.count));
            let Some(end) = len.ok().and_then(|len| table.at.checked_add(len)) else { return false };
            let Some(rules) = Home::of_table(name_of(gid, table.at), table) else { return false };
            if table.at < free_at || end > extent_len {
                return false;
            }
            free_at = end;
            used.insert(table.at, InUse { rules, count: table.count, end });
        }
        *self = QueueArrays { used, cleared: None };
        true
    }
}

impl<W: QueueWords> QueueArray<'_, W> {
    /// A port is of that program: the next home has to know it.
    pub fn note_client(&mut self, port: PortId, client: ClientId) {
        self.rules.note_client(port, client);
    }

    /// The program of a port is gone. Its queue is that one, or that one among others.
    pub fn break_port(&mut self, queue: u64, port: PortId) {
        if let Some(lane) = self.rules.lane_of(queue, port) {
            self.break_lane(queue, lane, port);
        }
        if let Some(first) = self.rules.first_of(queue, port) {
            self.break_reader(first, port);
        }
    }

    /// Refuses what copies do not have: units that are spilled lie in memory of one node.
    pub fn check_copies(&self) -> Result<()> {
        if self.rules.form().overflow != Overflow::Spill {
            return Ok(());
        }
        let reason = "queues with copies do not spill; make them with another overflow, or in a region without copies";
        Err(Error::BadUse { region: self.gid.to_string(), reason: reason.to_owned() })
    }

    /// The array's first bytes up to its queues, in the extent: where they begin, and how many.
    pub fn front(&self) -> (u64, u64) {
        (self.at, self.words.queue_at(0))
    }

    /// The first bytes of a queue up to those of its lanes, in the same way. `None` beyond the last queue.
    pub fn front_of(&self, queue: u64) -> Option<(u64, u64)> {
        (queue < self.count).then(|| (self.at + self.words.queue_at(queue), self.rules.form().bytes_at(0)))
    }

    /// The tail of a lane. `None` where there is none of that number.
    pub fn tail(&self, queue: u64, lane: u32) -> Option<u64> {
        let is_there = queue < self.count && lane < self.rules.form().ports;
        is_there.then(|| self.load(queue, self.rules.form().lane_at(lane) + TAIL_AT))
    }

    /// Bytes of a lane that units from one tail to another may have changed, and the word behind them: one range, or one at each end of the lane.
    pub fn written(&self, (queue, lane): (u64, u32), (from, to): (u64, u64)) -> [(u64, u64); 2] {
        let form = self.rules.form();
        let (begin, lane_len) = (self.at + self.words.queue_at(queue) + form.bytes_at(lane), form.lane_len());
        let len = to.wrapping_sub(from).saturating_add(WORD_LEN);
        let at = from % lane_len;
        if len >= lane_len {
            return [(begin, lane_len), (begin, 0)];
        }
        let first = len.min(lane_len - at);
        [(begin + at, first), (begin, len - first)]
    }
}
