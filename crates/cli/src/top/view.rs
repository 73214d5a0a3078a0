//! Content of the screen, and effects of keys.
//!
//! | key | does |
//! |---|---|
//! | 1 to 6, Tab, left, right | another table |
//! | up, down, page up, page down, home, end | another row |
//! | s, r | sort by the next column; the other way round |
//! | / | filter by a word, until Enter keeps it or Esc drops it |
//! | Enter | look into the row's region, or job |
//! | Esc | back; then without a filter |
//! | q, Ctrl-C | end |

use super::sample::Sample;
use super::sheet::{Order, Sheet, Target};
use super::sheets::{self, Topic};
use anyhow::Result;
use hanare::Gid;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Rows that a page key passes.
const PAGE_ROWS: usize = 16;

/// The screen's state.
pub struct View {
    /// The newest sample and the one before it.
    samples: [Option<Sample>; 2],
    /// Why the last look failed, if it did.
    pub error: Option<String>,
    kind: Topic,
    /// Orders of each table.
    orders: [Order; Topic::ALL.len()],
    /// The row that the cursor is on.
    pub row: usize,
    /// Only rows with this word are shown.
    pub filter: String,
    /// True if keys are letters of the filter.
    pub is_typing: bool,
    into: Option<Gid>,
    is_over: bool,
}

impl View {
    /// A view without a sample.
    pub fn new(into: Option<Gid>) -> View {
        let (samples, error, orders, row, filter, is_typing, is_over) = Default::default();
        View { samples, error, kind: Topic::Nodes, orders, row, filter, is_typing, into, is_over }
    }

    /// True if it is to end.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The region that is looked into.
    pub fn focus(&self) -> Option<Gid> {
        self.into
    }

    /// The table that is shown.
    pub fn kind(&self) -> Topic {
        self.kind
    }

    /// Its order.
    pub fn order(&self) -> Order {
        self.orders[self.kind as usize]
    }

    /// The last sample.
    pub fn sample(&self) -> Option<&Sample> {
        self.samples[0].as_ref()
    }

    /// A look at the pool has ended.
    pub fn on_sample(&mut self, sample: Result<Sample>) {
        match sample {
            Ok(sample) => {
                self.error = None;
                self.samples[1] = self.samples[0].replace(sample);
            }
            Err(error) => self.error = Some(format!("{error:#}")),
        }
    }

    /// The rows that are shown.
    pub fn sheet(&self) -> Option<Sheet> {
        let mut sheet = sheets::of(self.kind, self.sample()?, self.samples[1].as_ref());
        sheet.arrange(&self.filter, self.order());
        Some(sheet)
    }

    /// A key was pressed.
    pub fn on_key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.is_over = true,
            code if self.is_typing => self.type_filter(code),
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char(digit @ '1'..='6') => self.show(Topic::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.step(1),
            KeyCode::BackTab | KeyCode::Left => self.step(Topic::ALL.len() - 1),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => self.orders[self.kind as usize].reversed ^= true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Enter => self.look_into(),
            KeyCode::Esc if self.into.is_some() => self.into = None,
            KeyCode::Esc => self.filter.clear(),
            code => self.move_cursor(code),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.row = 0;
    }

    fn show(&mut self, kind: Topic) {
        (self.kind, self.row, self.into) = (kind, 0, None);
        self.filter.clear();
    }

    fn step(&mut self, by: usize) {
        self.show(Topic::ALL[(self.kind as usize + by) % Topic::ALL.len()]);
    }

    /// Sorts by the first column, then the next, and after the last as rows come.
    fn sort_by_next(&mut self) {
        let count = self.sheet().map_or(0, |sheet| sheet.heads.len());
        let order = &mut self.orders[self.kind as usize];
        order.column = match order.column {
            None => Some(0),
            Some(column) if column + 1 < count => Some(column + 1),
            Some(_) => None,
        };
    }

    fn look_into(&mut self) {
        let row = self.sheet().and_then(|sheet| sheet.rows.get(self.row).cloned());
        match row.and_then(|row| row.target) {
            Some(Target::Region(gid)) => self.into = Some(gid),
            Some(Target::Job(job)) => (self.filter, self.row) = (job, 0),
            None => {}
        }
    }

    fn move_cursor(&mut self, code: KeyCode) {
        let last = self.sheet().map_or(0, |sheet| sheet.rows.len().saturating_sub(1));
        self.row = match code {
            KeyCode::Up => self.row.saturating_sub(1),
            KeyCode::Down => self.row + 1,
            KeyCode::PageUp => self.row.saturating_sub(PAGE_ROWS),
            KeyCode::PageDown => self.row + PAGE_ROWS,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.row,
        }
        .min(last);
    }
}
