//! The screen: a line about the pool, one of tables, the table or a region's map, and one of keys. It fits 80 by 24.

use super::sample::{RegionMap, Sample};
use super::sheet::{Head, Sheet, SheetRow};
use super::sheets::Topic;
use super::view::View;
use crate::look;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

/// Cells of a line of a map.
const MAP_COLUMNS: usize = 64;

/// From no return to the most of all cells.
const SHADES: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let lines = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
    let [pool, tables, body, keys] = Layout::vertical(lines).areas(frame.area());
    frame.render_widget(Paragraph::new(pool_line(view)), pool);
    frame.render_widget(Paragraph::new(tables_line(view)), tables);
    match (view.sample(), view.sheet()) {
        (Some(sample), _) if view.focus().is_some() => frame.render_widget(Paragraph::new(map_text(sample, view)), body),
        (_, Some(sheet)) => draw_sheet(frame, body, &sheet, view),
        _ => frame.render_widget(Paragraph::new("looking at the pool ..."), body),
    }
    frame.render_widget(Paragraph::new(keys_line(view)).reversed(), keys);
}

fn pool_line(view: &View) -> Line<'static> {
    if let Some(error) = &view.error {
        return Line::from(error.clone()).fg(Color::Red);
    }
    let Some(sample) = view.sample() else { return Line::from("hanare top") };
    let alive = sample.nodes.iter().filter(|node| node.status.alive).count();
    Line::from(format!(
        "hanare top: {alive} of {} nodes, {} regions, {} programs, {} locks held",
        sample.nodes.len(),
        sample.regions.len(),
        sample.programs.len(),
        sample.lock_count
    ))
    .bold()
}

fn tables_line(view: &View) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, kind) in Topic::ALL.into_iter().enumerate() {
        let title = Span::from(format!(" {} {} ", at + 1, kind.title()));
        spans.push(if kind == view.kind() { title.reversed() } else { title });
    }
    if !view.filter.is_empty() || view.is_typing {
        spans.push(Span::from(format!("  /{}{}", view.filter, if view.is_typing { "_" } else { "" })).fg(Color::Yellow));
    }
    Line::from(spans)
}

fn keys_line(view: &View) -> Line<'static> {
    Line::from(match (view.is_typing, view.focus().is_some()) {
        (true, _) => " type a word   Enter keep   Esc drop",
        (false, true) => " Esc back   q quit",
        (false, false) => " Tab table   s sort   r reverse   / filter   Enter look into   q quit",
    })
}

fn draw_sheet(frame: &mut Frame<'_>, area: Rect, sheet: &Sheet, view: &View) {
    let order = view.order();
    let aligned = |head: &Head, text: String| {
        let alignment = if head.is_number { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(text).alignment(alignment))
    };
    let head = |(at, head): (usize, &Head)| {
        let cell = aligned(head, head.name.to_owned());
        if order.column == Some(at) { cell.style(Style::new().underlined()) } else { cell }
    };
    let row = |row: &SheetRow| Row::new(sheet.heads.iter().zip(&row.cells).map(|(head, cell)| aligned(head, cell.text.clone())));
    let widths = sheet.heads.iter().map(|head| match head.is_number {
        true => Constraint::Length(head.width),
        false => Constraint::Min(head.width.min(6)),
    });
    let table = Table::new(sheet.rows.iter().map(row), widths)
        .header(Row::new(sheet.heads.iter().enumerate().map(head)).bold())
        .row_highlight_style(Style::new().reversed());
    let mut state = TableState::default().with_selected((!sheet.rows.is_empty()).then_some(view.row));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A region's pages: how often each went to and fro, and which most.
fn map_text(sample: &Sample, view: &View) -> Text<'static> {
    let Some(map) = &sample.map else { return Text::from("this region cannot be looked into: it may not be read, or is gone") };
    let mut lines = map_lines(map);
    let runs = sample.runs.iter().filter(|run| Some(run.gid) == view.focus());
    lines.extend(runs.take(3).map(|run| Line::from(look::in_words(&run.run))));
    Text::from(lines)
}

fn map_lines(map: &RegionMap) -> Vec<Line<'static>> {
    let most = map.cells.iter().copied().max().unwrap_or(0);
    let each = if map.pages_each == 1 { "a page".to_owned() } else { format!("{} pages", map.pages_each) };
    let title = format!("region '{}': {each} a cell, at most {} returns in one", map.region, look::grouped(most));
    let shade = |returns: u64| match returns {
        0 => SHADES[0],
        _ => SHADES[(1 + returns.saturating_mul(7) / most.max(1)).min(8) as usize],
    };
    let line = |(at, cells): (usize, &[u64])| {
        let first = at as u64 * MAP_COLUMNS as u64 * map.pages_each;
        let shades: String = cells.iter().map(|returns| shade(*returns)).collect();
        Line::from(vec![Span::from(format!("{first:>11} ")), Span::from(shades).fg(Color::Yellow)])
    };
    std::iter::once(Line::from(title)).chain(map.cells.chunks(MAP_COLUMNS).enumerate().map(line)).collect()
}

#[cfg(test)]
mod tests;
