//! The memory behind the vector commands: channels of SO-DIMMs, each with banks that work in parallel up to a limit.
//!
//! A request opens its bank's row, waits for the column, and moves whole bursts over its channel's wires; the bank can
//! be opened again a row cycle later (closed-page policy, as scattered accesses want it). A channel starts requests in
//! their order, as many at a time as banks may be active: one on DIMMnet-2, all on DIMMnet-3.
use std::collections::VecDeque;

use crate::engine::Engine;
use crate::station::Station;
use crate::time::Picos;

/// The cited constants of one board's memory.
#[derive(Clone, Debug)]
pub struct MemoryShape {
    /// Independent channels.
    pub channels: usize,
    /// Banks behind one channel.
    pub banks: usize,
    /// How many banks of one channel may be active at the same time.
    pub banks_active_max: usize,
    /// Consecutive bytes on one bank before the next channel follows.
    pub interleave_bytes: u64,
    /// Bytes one clock moves on one channel (both edges).
    pub bytes_per_clock: u64,
    /// Clocks of the shortest burst.
    pub burst_clocks: u64,
    /// Module clock in hertz.
    pub clock_hertz: u64,
    /// Opening a row.
    pub row_open: Picos,
    /// From the column command to the first data.
    pub column: Picos,
    /// From opening a row to opening the next one of the same bank.
    pub row_cycle: Picos,
    /// The controller's own time before the first command of a request.
    pub controller: Picos,
}

/// One piece of a vector command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Byte address on the board.
    pub address: u64,
    /// Bytes the program wants from it.
    pub len_bytes: u64,
}

/// What a run of requests cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// When the last byte had moved.
    pub finished: Picos,
    /// Bytes the program wanted.
    pub useful_bytes: u64,
    /// Bytes the channels moved.
    pub moved_bytes: u64,
    /// The most banks that were active at once on one channel.
    pub banks_active: usize,
}

impl Service {
    /// Useful bytes per second, in MB/s.
    pub fn useful_megabytes_per_second(&self) -> f64 {
        self.useful_bytes as f64 / self.finished.as_us()
    }
}

#[derive(Clone, Copy)]
struct Place {
    channel: usize,
    bank: usize,
}

enum Event {
    /// The channel may start what waits.
    Start(usize),
    /// A bank's row cycle is over.
    Closed(Place),
}

#[derive(Default)]
struct Channel {
    waiting: VecDeque<(usize, u64)>,
    wires: Station,
    bank_open: Vec<bool>,
    active: usize,
}

impl MemoryShape {
    /// Peak bytes per second of all channels.
    pub fn peak_bytes_per_second(&self) -> u64 {
        self.channels as u64 * self.bytes_per_clock * self.clock_hertz
    }

    /// The time from asking for `len_bytes` at one place until they have moved, with nothing else in the way.
    pub fn access(&self, len_bytes: u64) -> Picos {
        self.controller + self.row_open + self.column + self.stream(len_bytes)
    }

    /// The time `len_bytes` of consecutive addresses take on all channels, latency not counted.
    pub fn stream(&self, len_bytes: u64) -> Picos {
        Picos::from_bytes(self.whole_bursts(len_bytes), self.peak_bytes_per_second())
    }

    /// Plays the requests in their order and returns when they are done.
    ///
    /// **Cost**: two events a request.
    pub fn run(&self, requests: &[Request]) -> Service {
        let mut engine = Engine::new();
        let mut channels: Vec<Channel> =
            (0..self.channels).map(|_| Channel { bank_open: vec![false; self.banks], ..Channel::default() }).collect();
        for request in requests {
            let place = self.place(request.address);
            channels[place.channel].waiting.push_back((place.bank, self.whole_bursts(request.len_bytes)));
        }
        (0..self.channels).for_each(|channel| engine.schedule(self.controller, Event::Start(channel)));
        let mut service = Service {
            finished: Picos::ZERO,
            useful_bytes: requests.iter().map(|request| request.len_bytes).sum(),
            moved_bytes: 0,
            banks_active: 0,
        };
        while let Some((now, event)) = engine.pop() {
            let channel = match event {
                Event::Start(channel) => channel,
                Event::Closed(place) => {
                    channels[place.channel].bank_open[place.bank] = false;
                    channels[place.channel].active -= 1;
                    place.channel
                }
            };
            self.start_waiting(&mut engine, &mut channels[channel], channel, now, &mut service);
        }
        service
    }

    /// Opens rows for the requests at the front as long as a bank and an activation are free.
    fn start_waiting(&self, engine: &mut Engine<Event>, channel: &mut Channel, index: usize, now: Picos, service: &mut Service) {
        while let Some(&(bank, moved)) = channel.waiting.front() {
            if channel.active == self.banks_active_max || channel.bank_open[bank] {
                return;
            }
            channel.waiting.pop_front();
            channel.bank_open[bank] = true;
            channel.active += 1;
            service.banks_active = service.banks_active.max(channel.active);
            let wires = channel.wires.take(now + self.row_open + self.column, self.channel_time(moved));
            service.finished = service.finished.max(wires.end);
            service.moved_bytes += moved;
            // A row stays open until its data left, and at least for the row cycle.
            engine.schedule(wires.end.max(now + self.row_cycle), Event::Closed(Place { channel: index, bank }));
        }
    }

    fn place(&self, address: u64) -> Place {
        let chunk = address / self.interleave_bytes;
        let channels = self.channels as u64;
        Place { channel: (chunk % channels) as usize, bank: (chunk / channels % self.banks as u64) as usize }
    }

    fn whole_bursts(&self, len_bytes: u64) -> u64 {
        len_bytes.next_multiple_of(self.bytes_per_clock * self.burst_clocks)
    }

    fn channel_time(&self, moved_bytes: u64) -> Picos {
        Picos::from_cycles(moved_bytes / self.bytes_per_clock, self.clock_hertz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FEATURE: D3-F15

    fn shape(banks_active_max: usize) -> MemoryShape {
        MemoryShape {
            channels: 1,
            banks: 4,
            banks_active_max,
            interleave_bytes: 64,
            bytes_per_clock: 16,
            burst_clocks: 1,
            clock_hertz: 100_000_000,
            row_open: Picos::ns(20),
            column: Picos::ns(20),
            row_cycle: Picos::ns(70),
            controller: Picos::ns(40),
        }
    }

    fn walk(count: u64) -> Vec<Request> {
        (0..count).map(|index| Request { address: index * 64, len_bytes: 8 }).collect()
    }

    #[test]
    fn one_bank_costs_a_row_cycle_each() {
        let service = shape(1).run(&walk(10));
        // Nine row cycles, then the tenth request: controller, row, column, one burst.
        assert_eq!(service.finished, Picos::ns(40 + 9 * 70 + 20 + 20 + 10));
        assert_eq!((service.useful_bytes, service.moved_bytes, service.banks_active), (80, 160, 1));
    }

    #[test]
    fn four_banks_overlap_their_row_cycles() {
        let service = shape(4).run(&walk(8));
        // The four rows of a round open together, the next round a row cycle later; the bursts queue on the wires.
        assert_eq!(service.finished, Picos::ns(40 + 70 + 20 + 20 + 10 * 4));
        assert_eq!(service.banks_active, 4);
    }

    #[test]
    fn the_same_bank_twice_does_not_overlap() {
        let one_bank: Vec<Request> = (0..4).map(|index| Request { address: index * 256, len_bytes: 8 }).collect();
        assert_eq!(shape(4).run(&one_bank).finished, shape(1).run(&one_bank).finished);
    }
}
