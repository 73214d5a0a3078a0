//! What a program does: random operations, each noted before and after.

use super::log::{Log, Op, Section, What, words_of};
use super::plan::{PAGE, Plan, RECORD_WORDS, RECORDS, REGION, REGION_LOCK_RECORD, WRITES_MAX, byte};
use crate::processes::{Dice, end_with_the_test, now, say_ready};
use hanare::{Consistency, Element, Group, Modify, Operator, Pool, Region, SharedMapping, Strided};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PHASES: usize = 3;
const OPS: usize = 80;

pub fn mode_of(name: &str) -> Consistency {
    if name == "coherent" { Consistency::Coherent } else { Consistency::Explicit }
}

/// The body of a program's process.
pub fn run() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| variable(name).parse::<usize>().unwrap();
    if std::env::var_os("TEST_FOLDER").is_none() {
        return;
    }
    end_with_the_test();
    let plan = Plan::new(number("TEST_SEED") as u64, mode_of(&variable("TEST_MODE")));
    let (folder, slot, life) = (variable("TEST_FOLDER"), number("TEST_SLOT"), number("TEST_LIFE"));
    say_ready("");
    let pool = Pool::attach_to(&variable("TEST_SOCKET"), None).unwrap();
    let region = pool.open(REGION).unwrap();
    let mut mapping = plan.slots[slot].maps.then(|| Arc::new(region.map(plan.mode).unwrap()));
    std::thread::scope(|scope| {
        let hands = plan.hands_of(slot, life);
        let (plan, pool, region, is_alone) = (&plan, &pool, &region, hands.len() == 1);
        for me in hands {
            let mapping = if is_alone { mapping.take() } else { mapping.clone() };
            let log = Log::create(&plan.log_of(Path::new(&folder), me));
            scope.spawn(move || Thread::new(plan, me, (pool, region), mapping, (log, is_alone)).run());
        }
    });
    drop((mapping, region, pool));
    // What the test's harness would print has no reader.
    std::process::exit(0);
}

struct Thread<'p> {
    plan: &'p Plan,
    me: usize,
    pool: &'p Pool,
    region: &'p Region,
    /// None where it uses commands alone.
    mapping: Option<Arc<SharedMapping>>,
    /// Whether nobody else of this process uses the mapping.
    is_alone: bool,
    log: Log,
    dice: Dice,
    writes: u64,
    /// What may be written by pointer, and by command.
    runs: [Vec<Range<u64>>; 2],
    /// How many values it has thought of for registers.
    values: u64,
    last_seen: u64,
}

/// A word at any place.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Anywhere<T>(T);

/// A word by pointer, where all programs see one memory.
fn word(mapping: &SharedMapping, at: u64) -> &AtomicU64 {
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics, or commands that do.
    unsafe { AtomicU64::from_ptr(mapping.ptr().add(at as usize).cast()) }
}

impl<'p> Thread<'p> {
    fn new(
        plan: &'p Plan,
        me: usize,
        (pool, region): (&'p Pool, &'p Region),
        mapping: Option<Arc<SharedMapping>>,
        (mut log, is_alone): (Log, bool),
    ) -> Thread<'p> {
        log.note(Op::on_range(What::Attach, 0, 0, pool.client().0), || (0, Vec::new()));
        let is_explicit = plan.mode == Consistency::Explicit;
        let runs = [false, true].map(|by_command| plan.runs_of(me, is_explicit.then_some(by_command)));
        let dice = Dice::new(plan.seed << 16 | me as u64);
        Thread { plan, me, pool, region, mapping, is_alone, log, dice, writes: 0, runs, values: 0, last_seen: 0 }
    }

    fn run(mut self) {
        let plan = self.plan;
        let slot = &plan.slots[plan.hands[self.me].slot];
        if slot.lives > 1 {
            (0..PHASES * OPS).for_each(|_| self.act());
            return;
        }
        let group = self.pool.group("phase", plan.parties() as u32).unwrap();
        for _ in 0..PHASES {
            (0..OPS).for_each(|_| self.act());
            // What all have written is there now, and nobody writes.
            self.flush_all();
            self.meet(&group);
            self.update_all();
            self.read_range(0, plan.hot);
            self.meet(&group);
        }
        // Whoever leaves first would fail the others.
        self.meet(&group);
        std::mem::forget(group);
    }

    fn meet(&mut self, group: &Group) {
        self.log.note(Op::on_range(What::Barrier, 0, 0, 0), || {
            group.barrier().unwrap();
            (0, Vec::new())
        });
    }

    fn flush_all(&mut self) {
        self.flush(0..self.plan.hot);
    }

    fn update_all(&mut self) {
        self.update(0..self.plan.hot);
    }

    fn flush(&mut self, range: Range<u64>) {
        let Some(mapping) = self.mapping.clone() else { return };
        let len = range.end - range.start;
        self.log.note(Op::on_range(What::Flush, range.start, len, 0), || {
            mapping.flush(range.start, len).unwrap();
            (0, Vec::new())
        });
    }

    fn update(&mut self, range: Range<u64>) {
        let Some(mapping) = self.mapping.clone() else { return };
        let len = range.end - range.start;
        self.log.note(Op::on_range(What::Update, range.start, len, 0), || {
            mapping.update(range.start, len).unwrap();
            (0, Vec::new())
        });
    }

    fn act(&mut self) {
        let is_coherent = self.plan.mode == Consistency::Coherent;
        match self.dice.below(24) {
            0..=4 if self.mapping.is_some() => self.store(),
            5 if self.mapping.is_some() => self.write(),
            5..=7 => self.put(),
            8..=11 => self.read_somewhere(),
            12 | 13 => self.use_register(),
            14 | 15 => self.use_counter(),
            16 | 17 => self.hold_lock(),
            18 | 19 if self.mapping.is_some() && !is_coherent => self.flush_somewhere(),
            20 | 21 if self.mapping.is_some() && !is_coherent => self.update_somewhere(),
            22 if self.plan.cold > 0 => self.sweep(),
            23 if self.is_alone && self.mapping.is_some() && self.dice.one_in(4) => self.map_anew(),
            _ => self.read_somewhere(),
        }
    }

    /// A part of what this thread writes.
    fn own_range(&mut self, by_command: bool, len_max: u64) -> Option<Range<u64>> {
        let runs = &self.runs[usize::from(by_command)];
        if runs.is_empty() || self.writes == WRITES_MAX {
            return None;
        }
        // Long runs are as likely as all short ones.
        let mut run = &runs[self.dice.below(runs.len() as u64) as usize];
        if self.dice.one_in(2) {
            run = runs.iter().max_by_key(|run| run.end - run.start)?;
        }
        let start = run.start + self.dice.below(run.end - run.start);
        let len = 1 + self.dice.below(len_max.min(run.end - start));
        self.writes += 1;
        Some(start..start + len)
    }

    fn bytes_for(&self, places: impl Iterator<Item = u64>) -> Vec<u8> {
        places.map(|at| byte(self.writes, at)).collect()
    }

    /// One store instruction.
    fn store(&mut self) {
        let Some(range) = self.own_range(false, 8) else { return };
        let len = [1, 2, 4, 8].into_iter().rfind(|len| *len <= range.end - range.start).unwrap_or(1);
        let op = Op::on_range(What::Store, range.start, len, self.writes);
        let bytes = self.bytes_for(op.places());
        let ptr = self.mapping.as_ref().unwrap().ptr().wrapping_add(range.start as usize);
        // SAFETY: within the mapping, of which no reference is made; at any alignment.
        self.log.note(op, || unsafe {
            match *bytes {
                [a] => ptr.write_volatile(a),
                [a, b] => ptr.cast::<Anywhere<u16>>().write_volatile(Anywhere(u16::from_le_bytes([a, b]))),
                [a, b, c, d] => ptr.cast::<Anywhere<u32>>().write_volatile(Anywhere(u32::from_le_bytes([a, b, c, d]))),
                _ => ptr.cast::<Anywhere<u64>>().write_volatile(Anywhere(words_of(&bytes)[0])),
            }
            (0, Vec::new())
        });
    }

    /// Many stores.
    fn write(&mut self) {
        let Some(range) = self.own_range(false, u64::MAX) else { return };
        let op = Op::on_range(What::Write, range.start, range.end - range.start, self.writes);
        let bytes = self.bytes_for(op.places());
        let mapping = self.mapping.clone().unwrap();
        self.log.note(op, || {
            mapping.write(range.start, &bytes).unwrap();
            (0, Vec::new())
        });
    }

    fn put(&mut self) {
        let Some(range) = self.own_range(true, u64::MAX) else { return };
        let (region, len) = (self.region, range.end - range.start);
        if len < 20 || self.dice.one_in(2) {
            let op = Op::on_range(What::Put, range.start, len, self.writes);
            let bytes = self.bytes_for(op.places());
            self.log.note(op, || {
                region.put(range.start, &bytes).unwrap();
                (0, Vec::new())
            });
        } else {
            let shape = self.strided_within(range);
            let op = Op::new(What::PutStrided, shape, self.writes);
            let bytes = self.bytes_for(op.places());
            self.log.note(op, || {
                region.put_strided(shape, &bytes).unwrap();
                (0, Vec::new())
            });
        }
    }

    fn strided_within(&mut self, range: Range<u64>) -> Strided {
        let block = 1 + self.dice.below(9);
        let stride = block + self.dice.below(100);
        let count = (range.end - range.start).saturating_sub(block) / stride + 1;
        Strided { offset: range.start, block: block.min(range.end - range.start), count, stride }
    }

    fn read_somewhere(&mut self) {
        let at = self.dice.below(self.plan.hot);
        let len_max = [8, 100, 6000][self.dice.below(8).saturating_sub(5) as usize];
        let len = (1 + self.dice.below(len_max)).min(self.plan.hot - at);
        self.read_range(at, len);
    }

    /// Reads in one of the ways that there are.
    fn read_range(&mut self, at: u64, len: u64) {
        let (region, way) = (self.region, self.dice.below(4));
        match (self.mapping.clone(), way) {
            (Some(mapping), 0..=2) if len <= 8 => {
                let len = [1, 2, 4, 8].into_iter().rfind(|k| *k <= len).unwrap_or(1);
                let ptr = mapping.ptr().wrapping_add(at as usize);
                // SAFETY: within the mapping, of which no reference is made; at any alignment.
                self.log.note(Op::on_range(What::Load, at, len, 0), || unsafe {
                    let bytes = match len {
                        1 => vec![ptr.read_volatile()],
                        2 => { ptr.cast::<Anywhere<u16>>().read_volatile().0 }.to_le_bytes().to_vec(),
                        4 => { ptr.cast::<Anywhere<u32>>().read_volatile().0 }.to_le_bytes().to_vec(),
                        _ => { ptr.cast::<Anywhere<u64>>().read_volatile().0 }.to_le_bytes().to_vec(),
                    };
                    (0, bytes)
                });
            }
            (Some(mapping), 0..=2) => {
                self.log.note(Op::on_range(What::Read, at, len, 0), || {
                    let mut bytes = vec![0; len as usize];
                    mapping.read(at, &mut bytes).unwrap();
                    (0, bytes)
                });
            }
            _ if len > 20 && self.dice.one_in(3) => {
                let shape = self.strided_within(at..at + len);
                self.log.note(Op::new(What::GetStrided, shape, 0), || {
                    let mut bytes = vec![0; (shape.block * shape.count) as usize];
                    region.get_strided(shape, &mut bytes).unwrap();
                    (0, bytes)
                });
            }
            _ => {
                self.log.note(Op::on_range(What::Get, at, len, 0), || {
                    let mut bytes = vec![0; len as usize];
                    region.get(at, &mut bytes).unwrap();
                    (0, bytes)
                });
            }
        }
    }

    fn use_register(&mut self) {
        let registers = self.plan.registers();
        let at = registers[self.dice.below(registers.len() as u64) as usize];
        self.values += 1;
        let value = (self.me as u64 + 1) << 32 | self.values;
        let (region, expected, way) = (self.region, self.last_seen, self.dice.below(12));
        let mapping = self.mapping.clone().filter(|_| self.plan.mode == Consistency::Coherent);
        let (word, log) = (mapping.as_deref().map(|mapping| word(mapping, at)), &mut self.log);
        let op = |what| Op::on_range(what, at, 8, value);
        let none = Vec::new;
        self.last_seen = match (word, way) {
            (Some(word), 0..=2) => log.note(op(What::RegisterStore), || {
                word.store(value, SeqCst);
                (value, none())
            }),
            (Some(word), 3 | 4) => log.note(op(What::RegisterSwap), || (word.swap(value, SeqCst), none())),
            (Some(word), 5 | 6) => log.note(Op { expected, ..op(What::RegisterCompareSwap) }, || {
                (word.compare_exchange(expected, value, SeqCst, SeqCst).unwrap_or_else(|old| old), none())
            }),
            (None, 5 | 6) => log.note(Op { expected, ..op(What::RegisterCompareSwap) }, || {
                (region.compare_and_swap_word(at, expected, value).unwrap(), none())
            }),
            (Some(word), 7..=9) => log.note(op(What::RegisterLoad), || (word.load(SeqCst), none())),
            (_, 0 | 1 | 10) => log.note(op(What::RegisterPut), || {
                region.put(at, &value.to_le_bytes()).unwrap();
                (value, none())
            }),
            (None, 2..=4) => log.note(op(What::RegisterSwap), || (region.fetch_word(at, Operator::Swap, value).unwrap(), none())),
            _ => log.note(op(What::RegisterGet), || {
                let mut bytes = [0; 8];
                region.get(at, &mut bytes).unwrap();
                (u64::from_le_bytes(bytes), none())
            }),
        }
        .0;
    }

    fn use_counter(&mut self) {
        let counters = self.plan.counters();
        let at = counters[self.dice.below(counters.len() as u64) as usize];
        let (region, way) = (self.region, self.dice.below(8));
        let mapping = self.mapping.clone().filter(|_| self.plan.mode == Consistency::Coherent);
        let (word, log) = (mapping.as_deref().map(|mapping| word(mapping, at)), &mut self.log);
        let op = |what| Op::on_range(what, at, 8, 0);
        let add = Modify { operator: Operator::Add, element: Element::U64 };
        match (word, way) {
            (Some(word), 0..=2) => log.note(op(What::Add), || (word.fetch_add(1, SeqCst), Vec::new())),
            (Some(word), 3) => log.note(op(What::CountLoad), || (word.load(SeqCst), Vec::new())),
            (_, 0..=4) => log.note(op(What::AddCommand), || (region.fetch_word(at, Operator::Add, 1).unwrap(), Vec::new())),
            (_, 5 | 6) => {
                // One on each page.
                let shape = Strided { offset: counters[0], block: 8, count: counters.len() as u64, stride: PAGE };
                log.note(Op::new(What::AddUpdate, shape, 0), || {
                    region.update(shape, add, &1u64.to_le_bytes().repeat(counters.len())).unwrap();
                    (0, Vec::new())
                })
            }
            _ => log.note(op(What::CountGet), || {
                let mut bytes = [0; 8];
                region.get(at, &mut bytes).unwrap();
                (u64::from_le_bytes(bytes), Vec::new())
            }),
        };
    }

    /// Takes a lock, adds one to all words of its record, and says what it found.
    fn hold_lock(&mut self) {
        let record = self.dice.below(RECORDS);
        let (pool, plan, region, mapping) = (self.pool, self.plan, self.region, self.mapping.clone());
        let words: Vec<u64> = (0..RECORD_WORDS).map(|k| plan.record_word(record, k)).collect();
        self.log.note(Op::on_range(What::Section, record, 0, 0), || {
            let lock = match record {
                REGION_LOCK_RECORD => region.lock_at(plan.region_lock()).lock().unwrap(),
                _ => pool.lock(&format!("record-{record}")).unwrap(),
            };
            let taken = now();
            let was_abandoned = lock.was_abandoned();
            let mut found = Vec::new();
            for at in &words {
                let mut bytes = [0; 8];
                match &mapping {
                    Some(mapping) => {
                        mapping.update(*at, 8).unwrap();
                        mapping.read(*at, &mut bytes).unwrap();
                    }
                    None => region.get(*at, &mut bytes).unwrap(),
                }
                found.push(u64::from_le_bytes(bytes));
            }
            let next = found.iter().max().unwrap() + 1;
            for at in &words {
                match &mapping {
                    Some(mapping) => {
                        mapping.write(*at, &next.to_le_bytes()).unwrap();
                        mapping.flush(*at, 8).unwrap();
                    }
                    None => region.put(*at, &next.to_le_bytes()).unwrap(),
                }
            }
            let section = Section { taken, leaving: now(), was_abandoned, words: found };
            lock.unlock().unwrap();
            (next, section.to_bytes())
        });
    }

    fn flush_somewhere(&mut self) {
        let at = self.dice.below(self.plan.hot);
        let end = at + 1 + self.dice.below(self.plan.hot - at);
        if self.dice.one_in(3) { self.flush_all() } else { self.flush(at..end) }
    }

    fn update_somewhere(&mut self) {
        let at = self.dice.below(self.plan.hot);
        let end = at + 1 + self.dice.below(self.plan.hot - at);
        if self.dice.one_in(3) { self.update_all() } else { self.update(at..end) }
    }

    /// Touches pages behind those that matter.
    fn sweep(&mut self) {
        let (hot, cold, region, mapping) = (self.plan.hot, self.plan.cold, self.region, self.mapping.clone());
        self.log.note(Op::on_range(What::Sweep, hot, cold * PAGE, 0), || {
            for page in 0..cold {
                let mut bytes = [0];
                match &mapping {
                    Some(mapping) => mapping.read(hot + page * PAGE, &mut bytes).unwrap(),
                    None => region.get(hot + page * PAGE, &mut bytes).unwrap(),
                }
                assert_eq!(bytes, [0]);
            }
            (0, Vec::new())
        });
    }

    /// Lets the mapping go, and maps again.
    fn map_anew(&mut self) {
        self.flush_all();
        let (region, mode, old) = (self.region, self.plan.mode, self.mapping.take());
        let mut mapping = None;
        self.log.note(Op::on_range(What::Remap, 0, self.plan.hot, 0), || {
            drop(old);
            mapping = Some(Arc::new(region.map(mode).unwrap()));
            (0, Vec::new())
        });
        self.mapping = mapping;
    }
}
