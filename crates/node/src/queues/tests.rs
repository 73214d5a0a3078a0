use super::*;
use hanare_home::{LinkBegin, QueueArray, QueueArrays};
use hanare_memory::file::Huge;
use hanare_memory::{Extent, Lender, LenderOptions};
use hanare_protocol::queue::home::ReaderState;
use hanare_protocol::queue::layout::{
    LANE_STATE_AT, LINK_AT, READER_AT, READER_BELL_AT, ROOM_BELL_AT, SET_BELL_AT, SPILLED_AT, WRITER_AT,
};
use hanare_protocol::queue::link::LinkWord;
use hanare_protocol::queue::{Overflow, PortId, Unit};
use hanare_protocol::wire::queue::AppendFront;
use hanare_ring::array::Wake;

const LEN: u64 = 1 << 20;
const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 2, overflow: Overflow::Wait };

struct Memory {
    spills: Arc<Spills>,
    extent: Extent,
    arrays: QueueArrays<Spill>,
}

impl Memory {
    fn new() -> Memory {
        let options = LenderOptions { bytes: 4 * LEN, slab_len: None, huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
        let lender = Arc::new(Lender::new(&options).unwrap());
        Memory { extent: lender.make(LEN).unwrap(), spills: Spills::new(lender), arrays: QueueArrays::default() }
    }

    fn window(&self) -> Window {
        // SAFETY: the extent lives as long as this, which makes the window anew for each use.
        unsafe { self.extent.window() }
    }

    fn write(&self, at: u64, form: QueueForm, count: u64) {
        self.window().slice(at as usize, LINE_LEN as usize).write_from(&form.encode(count)).unwrap();
    }

    fn with<T>(&mut self, at: u64, with: impl FnOnce(&mut QueueArray<'_, SharedQueues>) -> Result<T>) -> Result<T> {
        let extent = ExtentQueues { gid: Gid(1), window: self.window(), spills: &self.spills };
        self.arrays.with((Gid(1), at), &extent, with)
    }
}

#[test]
fn who_writes_another_number_of_queues_over_one_in_use_reaches_no_memory_beyond() {
    let mut memory = Memory::new();
    let count = (1..).take_while(|count| FORM.array_len(*count).unwrap() <= LEN).last().unwrap();
    memory.write(0, FORM, count);
    let last = count - 1;
    memory.with(0, |home| home.open_lane(last, PortId(1), 7)).unwrap();
    memory.with(0, |home| home.open_reader(last, 1, PortId(2))).unwrap();
    memory.write(0, FORM, 1);
    memory
        .with(0, |home| {
            home.close_lane(last, 0, PortId(1));
            Ok(())
        })
        .unwrap();
    memory
        .with(0, |home| {
            home.break_lane(last, 0, PortId(1));
            Ok(())
        })
        .unwrap();
    memory
        .with(0, |home| {
            home.break_reader(last, PortId(2));
            Ok(())
        })
        .unwrap();
    memory
        .with(0, |home| {
            home.close_reader(last, PortId(2));
            Ok(())
        })
        .unwrap();
    assert!(memory.with(0, |home| home.resume_lane(last, 0, PortId(1))).is_err());
}

/// Such a writer put its queue on the board. The reader took it from there, looked and left, and then the writer set the bell.
#[test]
fn a_writer_that_dies_before_it_puts_its_queue_on_the_board_again_leaves_it_there() {
    let mut memory = Memory::new();
    memory.write(0, FORM, 100);
    memory.with(0, |home| home.open_lane(70, PortId(1), 7)).unwrap();
    let array = Array::new(Shared::new(memory.window()), FORM, 100);
    let told = || {
        let (mut found, bell) = (Vec::new(), array.committed(70));
        array.board().take(usize::MAX, &mut found);
        (found, bell)
    };
    assert_eq!(told(), (vec![70], Wake::Nobody), "the bell says that somebody looks");
    memory
        .with(0, |home| {
            home.break_lane(70, 0, PortId(1));
            Ok(())
        })
        .unwrap();
    assert_eq!(told(), (vec![70], Wake::Nobody));
}

#[test]
fn what_the_life_before_said_of_ports_is_taken_back_when_an_array_is_used() {
    let mut memory = Memory::new();
    memory.arrays = QueueArrays::restored();
    memory.write(0, FORM, 100);
    let array = Array::new(Shared::new(memory.window()), FORM, 100);
    let words = |queue: u64| {
        let (first, line) = (array.queue_at(queue), array.queue_at(queue) + FORM.lane_at(1));
        [first + READER_BELL_AT, first + ROOM_BELL_AT, first + READER_AT, line + LANE_STATE_AT, line + SPILLED_AT]
            .map(|at| (at / WORD_LEN) as usize)
    };
    for queue in [3, 70] {
        words(queue).into_iter().for_each(|word| array.words().store(word, 2));
    }
    let mut writer = lane::Writer::new(*array.words(), array.place(5, 0)).unwrap();
    assert!(writer.push(&[7; 16]).unwrap());
    let (mut found, bell) = (Vec::new(), ((SET_BELL_AT + WORD_LEN) / WORD_LEN) as usize);
    array.words().store(bell, ReaderState::Held as u64);
    memory.with(0, |home| home.open_lane(70, PortId(1), 7)).unwrap();
    assert_eq!(words(3).map(|word| array.words().load(word)), [0; 5]);
    assert_eq!((words(70).map(|word| array.words().load(word)), array.words().load(bell)), ([0; 5], 0));
    array.board().take(usize::MAX, &mut found);
    assert_eq!(found, [3, 5, 70], "those that may have something");
    memory.with(0, |home| home.open_reader(3, 1, PortId(2))).unwrap();
    assert_ne!(array.words().load(words(3)[2]), 0);
    memory.with(0, |home| home.open_lane(3, PortId(3), 7)).unwrap();
    assert_ne!(array.words().load(words(3)[2]), 0, "what this life says stays");
}

#[test]
fn ports_learn_of_each_change_of_a_lane_by_the_news_and_of_its_writer_by_the_number() {
    let mut memory = Memory::new();
    memory.write(0, FORM, 1);
    let array = Array::new(Shared::new(memory.window()), FORM, 1);
    let writer = || array.words().load(((array.queue_at(0) + FORM.lane_at(0) + WRITER_AT) / WORD_LEN) as usize);
    let mut seen = array.news(0);
    let mut is_news = || std::mem::replace(&mut seen, array.news(0)) != array.news(0);
    memory.with(0, |home| home.open_lane(0, PortId(5), 7)).unwrap();
    assert_eq!((is_news(), writer()), (true, 5));
    memory.with(0, |home| home.resume_lane(0, 0, PortId(5))).unwrap();
    assert_eq!((is_news(), writer()), (false, 5));
    let breaks = |home: &mut QueueArray<'_, SharedQueues>| {
        home.break_lane(0, 0, PortId(5));
        Ok(())
    };
    memory.with(0, breaks).unwrap();
    assert_eq!((is_news(), writer()), (true, 0));
    memory.with(0, |home| home.resume_lane(0, 0, PortId(5))).unwrap();
    assert_eq!((is_news(), writer()), (true, 5));
}

const LINKED: u64 = 0;

/// A queue with a reader and a writer in lane 0, which has a link.
fn linked() -> (Memory, LinkBegin) {
    let mut memory = Memory::new();
    memory.write(0, FORM, 1);
    memory.with(0, |home| home.open_lane(LINKED, PortId(1), 7)).unwrap();
    assert!(memory.with(0, |home| home.link_lane(LINKED, 0, PortId(1))).unwrap().is_none(), "nobody reads");
    memory.with(0, |home| home.open_reader(LINKED, 1, PortId(2))).unwrap();
    let begin = memory.with(0, |home| home.link_lane(LINKED, 0, PortId(1))).unwrap();
    (memory, begin.expect("somebody reads"))
}

/// The link's word, as the reader stores it.
fn take(memory: &mut Memory, generation: u32, count: u32) {
    let take = |home: &mut QueueArray<'_, SharedQueues>| {
        let at = home.words().queue_at(LINKED) + FORM.lane_at(0) + LINK_AT;
        home.words().store(at, LinkWord { generation, count }.encode());
        Ok(())
    };
    memory.with(0, take).unwrap();
}

fn word(memory: &mut Memory) -> LinkWord {
    memory
        .with(0, |home| Ok(LinkWord::decode(home.words().load(home.words().queue_at(LINKED) + FORM.lane_at(0) + LINK_AT))))
        .unwrap()
}

#[test]
fn what_the_reader_took_from_a_link_counts_when_the_lane_is_taken_back() {
    let (mut memory, begin) = linked();
    assert_eq!((begin.accepted, begin.tail, word(&mut memory).generation), (0, 0, begin.generation));
    take(&mut memory, begin.generation, 3);
    assert_eq!(memory.with(0, |home| home.resume_lane(LINKED, 0, PortId(1))), Ok(3));
    assert_eq!(word(&mut memory), LinkWord::NONE, "the reader takes nothing more");
    // The next link begins there, under another generation.
    let next = memory.with(0, |home| home.link_lane(LINKED, 0, PortId(1))).unwrap().unwrap();
    assert!(next.accepted == 3 && next.generation != begin.generation);
}

#[test]
fn only_the_lanes_own_writer_takes_it_back_from_its_link() {
    let (mut memory, begin) = linked();
    let append = AppendFront { queue: LINKED, writer: PortId(9), seq: 0 }.encode();
    assert!(memory.with(0, |home| home.append(0, &append)).is_err());
    assert!(memory.with(0, |home| home.resume_lane(LINKED, 0, PortId(9))).is_err());
    assert!(memory.with(0, |home| home.link_lane(LINKED, 0, PortId(9))).unwrap().is_none());
    let close = |home: &mut QueueArray<'_, SharedQueues>| {
        home.close_lane(LINKED, 0, PortId(9));
        Ok(())
    };
    memory.with(0, close).unwrap();
    assert_eq!(word(&mut memory).generation, begin.generation);
    // Its own append does, before it counts.
    take(&mut memory, begin.generation, 2);
    let append = [&AppendFront { queue: LINKED, writer: PortId(1), seq: 1 }.encode()[..], &[1; 16], &[2; 16]].concat();
    let appended = memory.with(0, |home| home.append(0, &append)).unwrap().0;
    assert_eq!((appended.accepted, word(&mut memory)), (3, LinkWord::NONE), "the first of them was taken from the link");
}

#[test]
fn what_a_reader_says_of_another_link_counts_nothing() {
    let (mut memory, begin) = linked();
    take(&mut memory, begin.generation + 1, 1000);
    assert_eq!(memory.with(0, |home| home.resume_lane(LINKED, 0, PortId(1))), Ok(0));
}
