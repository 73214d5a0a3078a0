//! The timeline of a rank, as the product wrote it, read as a list of what its one thread did.
use std::collections::BTreeMap;

use hanare_protocol::limits::{BATCH_COUNT_MAX, BODY_LEN_MAX};
use serde_json::Value;

/// A request, its bytes without heads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub node: usize,
    pub sent: u64,
    /// Absent while there is no answer.
    pub received: Option<u64>,
    /// The node may hold the answer back until another rank acts.
    pub may_wait: bool,
}

/// Messages for pages, heads included.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PageMessages {
    pub messages: u64,
    pub sent: u64,
    pub received: u64,
    /// Pages that came to this host's node from another host, beside these messages.
    pub later: u64,
    pub nodes: Vec<usize>,
}

impl PageMessages {
    fn add(&mut self, more: PageMessages) {
        self.messages = self.messages.saturating_add(more.messages);
        self.sent = self.sent.saturating_add(more.sent);
        self.received = self.received.saturating_add(more.received);
        self.later = self.later.saturating_add(more.later).min(LONGEST_ROW);
        self.nodes.extend(more.nodes);
        self.nodes.sort_unstable();
        self.nodes.dedup();
    }
}

/// Relation of an entry to the thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sort {
    /// The thread was in it from begin to end.
    Waited,
    /// The thread began it and went on: it takes no time of its own.
    Begun,
    /// The end of an earlier `Begun`; `left` requests of others are still open.
    Over { left: u64 },
}

/// A piece of the thread's life.
#[derive(Clone, Debug)]
pub(super) struct TimelineEntry<'a> {
    pub name: &'a str,
    pub category: &'a str,
    pub sort: Sort,
    /// Microseconds.
    pub begin: f64,
    pub end: f64,
    /// Microseconds of it that went into writing the timeline.
    pub wrote: f64,
    /// The same between the entry before and this one.
    pub wrote_before: f64,
    /// Bytes of a command.
    pub bytes: u64,
    /// Pages of a fault: the one that was touched, and those that came along.
    pub pages: u64,
    /// Places of its requests in [`Timeline::asked`].
    pub requests: Vec<usize>,
    pub page_messages: PageMessages,
    /// Requests that were begun before and are open at its end.
    pub open: u64,
}

impl TimelineEntry<'_> {
    /// A fault that may have needed another host. Any other took its time on this one.
    pub fn is_distant_fault(&self) -> bool {
        self.category == "fault" && !matches!(self.name, "fault, mapped" | "fault, twin made" | "fault, lost")
    }
}

/// All of a rank.
#[derive(Default)]
pub(super) struct Timeline<'a> {
    pub entries: Vec<TimelineEntry<'a>>,
    pub asked: Vec<Asked>,
}

/// A timeline while it is read.
#[derive(Default)]
struct Reader<'a> {
    found: Timeline<'a>,
    open: Vec<TimelineEntry<'a>>,
    /// Commands and lone requests that were begun and are not over, by id, with their places among the entries.
    begun: Vec<(&'a Value, usize)>,
    /// Requests that are not answered, by id.
    unanswered: BTreeMap<String, usize>,
    wrote: f64,
}

/// Microseconds of a timeline: it counts from midnight, and a run of a day is none that anybody asks about.
const TWO_DAYS_US: f64 = 2.0 * 86_400e6;

fn micros(event: &Value, key: &str) -> Result<f64, String> {
    event[key].as_f64().filter(|time| (0.0..TWO_DAYS_US).contains(time)).ok_or_else(|| format!("an event without {key}: {event}"))
}

/// Most pages that come later by one event: 1 GiB.
const LONGEST_ROW: u64 = 1 << 18;

/// Bytes of a message, of which none has more than [`BODY_LEN_MAX`].
fn bytes(value: &Value) -> Option<u64> {
    value.as_u64().filter(|bytes| *bytes <= BODY_LEN_MAX)
}

/// `request to node 3` as 3.
fn node_of(name: &str) -> Result<usize, String> {
    let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let number = digits.parse::<u32>().map_err(|_| format!("\"{name}\" names no node"))?;
    Ok(number as usize)
}

fn page_messages(event: &Value) -> Option<PageMessages> {
    let pages = event.get("pages")?;
    let count = |key: &str| bytes(&pages[key]).unwrap_or(0);
    let nodes = pages["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let nodes = nodes.iter().take(u64::BITS as usize).filter_map(|node| Some(node.as_u64()? as usize)).collect();
    let (messages, sent, received) = (count("messages"), count("bytes_sent"), count("bytes_received"));
    let later = count("pages_later").min(LONGEST_ROW);
    Some(PageMessages { messages, sent, received, later, nodes })
}

/// Reads the events of one rank.
///
/// **Errors**: more than one thread, and events that do not fit each other.
pub(super) fn read(events: &[Value]) -> Result<Timeline<'_>, String> {
    let mut reader = Reader::default();
    let mut thread = None;
    for event in events.iter().filter(|event| event["ph"] != "M") {
        if *thread.get_or_insert(&event["tid"]) != &event["tid"] {
            return Err("more than one thread uses the pool; how they wait for each other is not recorded".to_string());
        }
        reader.take(event)?;
        if reader.begun.len() > BATCH_COUNT_MAX {
            return Err(format!("more than {BATCH_COUNT_MAX} commands are under way together"));
        }
    }
    if !reader.open.is_empty() {
        return Err("the program ended inside a command".to_string());
    }
    share_out(&mut reader.found.entries);
    Ok(reader.found)
}

impl<'a> Reader<'a> {
    fn take(&mut self, event: &'a Value) -> Result<(), String> {
        let (at, category) = (micros(event, "ts")?, event["cat"].as_str().unwrap_or_default());
        let wrote = event["wrote"].as_f64().filter(|wrote| (0.0..TWO_DAYS_US).contains(wrote)).unwrap_or(0.0);
        match self.open.first_mut() {
            Some(outer) => outer.wrote += wrote,
            None => self.wrote += wrote,
        }
        match event["ph"].as_str().unwrap_or_default() {
            "B" => {
                let entry = self.entry(event, Sort::Waited, at, at);
                self.open.push(entry);
            }
            "X" => {
                let end = at + micros(event, "dur")?;
                self.whole(event, at, end);
            }
            "E" => self.end(event, at)?,
            "b" if category == "request" => self.ask(event, at)?,
            "e" if category == "request" => self.answer(event, at),
            "b" if category == "command" => {
                self.begun.push((&event["id2"], self.found.entries.len()));
                let entry = self.entry(event, Sort::Begun, at, at);
                self.found.entries.push(entry);
            }
            "e" if category == "command" => self.over(&event["id2"], event, at),
            _ => self.pages_of(event),
        }
        Ok(())
    }

    /// An entry that begins; the writing since the entry before is before it, where it is not inside another.
    fn entry(&mut self, event: &'a Value, sort: Sort, begin: f64, end: f64) -> TimelineEntry<'a> {
        let wrote_before = if self.open.is_empty() { std::mem::take(&mut self.wrote) } else { 0.0 };
        TimelineEntry {
            name: event["name"].as_str().unwrap_or_default(),
            category: event["cat"].as_str().unwrap_or_default(),
            sort,
            begin,
            end,
            wrote: 0.0,
            wrote_before,
            bytes: bytes(&event["args"]["bytes"]).unwrap_or(0),
            pages: event["args"]["pages_ahead"].as_u64().unwrap_or(0).min(u64::from(u16::MAX)) + 1,
            requests: Vec::new(),
            page_messages: page_messages(event).unwrap_or_default(),
            open: 0,
        }
    }

    /// A slice that is told when it is over. One that lies in another belongs to that.
    fn whole(&mut self, event: &'a Value, at: f64, end: f64) {
        match self.open.last_mut() {
            Some(outer) => outer.page_messages.add(page_messages(event).unwrap_or_default()),
            None => {
                let entry = TimelineEntry { open: self.open_count(), ..self.entry(event, Sort::Waited, at, end) };
                self.found.entries.push(entry);
            }
        }
    }

    fn end(&mut self, event: &Value, at: f64) -> Result<(), String> {
        let mut ended = self.open.pop().ok_or("a slice ends that never began")?;
        ended.end = at;
        ended.page_messages.add(page_messages(event).unwrap_or_default());
        match self.open.last_mut() {
            Some(outer) => {
                outer.requests.append(&mut ended.requests);
                outer.page_messages.add(ended.page_messages);
            }
            None => {
                ended.open = self.open_count();
                self.found.entries.push(ended);
            }
        }
        Ok(())
    }

    fn ask(&mut self, event: &'a Value, at: f64) -> Result<(), String> {
        let sent = bytes(&event["args"]["bytes_sent"]).ok_or("a request without bytes")?;
        let node = node_of(event["name"].as_str().unwrap_or_default())?;
        let is_command = event["args"]["kind"] == "commands";
        let number = self.found.asked.len();
        self.found.asked.push(Asked { node, sent, received: None, may_wait: !is_command });
        self.unanswered.insert(event["id2"].to_string(), number);
        self.pages_of(event);
        let last = self.begun.last().map(|(_, place)| *place).filter(|_| is_command);
        if let Some(sender) = self.open.last_mut().or(last.and_then(|place| self.found.entries.get_mut(place))) {
            sender.requests.push(number);
        } else {
            // A question outside any slice, as an unlock: the thread waits for it, or goes on and comes back to it.
            self.begun.push((&event["id2"], self.found.entries.len()));
            let entry = TimelineEntry { requests: vec![number], ..self.entry(event, Sort::Begun, at, at) };
            self.found.entries.push(entry);
        }
        Ok(())
    }

    fn answer(&mut self, event: &'a Value, at: f64) {
        self.pages_of(event);
        let Some(number) = self.unanswered.remove(&event["id2"].to_string()) else { return };
        self.found.asked[number].received = bytes(&event["args"]["bytes_received"]);
        let lone = self.begun.iter().find(|(id, _)| *id == &event["id2"]).map(|(_, place)| *place);
        match lone {
            None => {}
            Some(place) if place + 1 == self.found.entries.len() && self.open.is_empty() => {
                self.begun.retain(|(_, begun)| *begun != place);
                let (wrote, open) = (std::mem::take(&mut self.wrote), self.open_count());
                let entry = &mut self.found.entries[place];
                (entry.sort, entry.end, entry.wrote, entry.open) = (Sort::Waited, at, wrote, open);
            }
            Some(_) => self.over(&event["id2"], event, at),
        }
    }

    /// The thread learns that an earlier command is over.
    fn over(&mut self, id: &Value, event: &'a Value, at: f64) {
        self.begun.retain(|(begun, _)| *begun != id);
        if self.open.is_empty() {
            let left = self.open_count();
            let entry = TimelineEntry { open: left, ..self.entry(event, Sort::Over { left }, at, at) };
            self.found.entries.push(entry);
        }
    }

    /// Messages for pages that an event tells of beside its own matter.
    fn pages_of(&mut self, event: &Value) {
        if let (Some(pages), Some(entry)) = (page_messages(event), self.open.first_mut().or(self.found.entries.last_mut())) {
            entry.page_messages.add(pages);
        }
    }

    fn open_count(&self) -> u64 {
        self.begun.iter().map(|(_, place)| self.found.entries[*place].requests.len() as u64).sum()
    }
}

/// Faults that were written together have their messages together: each gets a part by its pages.
fn share_out(entries: &mut [TimelineEntry<'_>]) {
    let mut from = 0;
    while from < entries.len() {
        if entries[from].category != "fault" || entries[from].page_messages.messages == 0 {
            from += 1;
            continue;
        }
        let later = entries[from + 1..].iter();
        let len = 1 + later.take_while(|entry| entry.category == "fault" && entry.page_messages.messages == 0).count();
        let batch = &mut entries[from..from + len];
        let all = std::mem::take(&mut batch[0].page_messages);
        let weight = |entry: &TimelineEntry<'_>| if entry.is_distant_fault() { entry.pages } else { 0 };
        let whole: u64 = batch.iter().map(weight).sum();
        let mut before = 0;
        for entry in batch {
            let up_to = before + weight(entry);
            let part = |count: u64| {
                let of = |weights: u64| (u128::from(count) * u128::from(weights) / u128::from(whole.max(1))) as u64;
                of(up_to) - of(before)
            };
            entry.page_messages = PageMessages {
                messages: part(all.messages),
                sent: part(all.sent),
                received: part(all.received),
                later: part(all.later),
                nodes: all.nodes.clone(),
            };
            before = up_to;
        }
        from += len;
    }
}
