//! The form in which every state machine declares its transitions: rows of event, allowed states, and next state.
//!
//! A machine keeps its data in the variants of its own state enum. For the table it projects the state onto a small `Copy` enum. Each
//! change of state goes through [`next`], so the table is what runs, not a drawing beside it.

use std::fmt::Debug;

/// A row: an event's effect in the states where it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Row<S: 'static, E> {
    /// The event.
    pub event: E,
    /// States where it is allowed.
    pub from: &'static [S],
    /// The next state.
    pub to: S,
}

/// The state that `event` leads to from `from`, or `None` where the table does not allow it.
///
/// **Cost**: a scan of the table; tables have about ten rows.
pub fn next<S: Copy + PartialEq, E: PartialEq>(table: &[Row<S, E>], from: S, event: E) -> Option<S> {
    table.iter().find(|row| row.event == event && row.from.contains(&from)).map(|row| row.to)
}

/// The table as text, one row a line, for snapshots.
pub fn print<S: Debug, E: Debug>(table: &[Row<S, E>]) -> String {
    let line = |row: &Row<S, E>| {
        let from = row.from.iter().map(|state| format!("{state:?}")).collect::<Vec<_>>().join(", ");
        format!("{:<14} {:<34} -> {:?}\n", format!("{:?}", row.event), from, row.to)
    };
    table.iter().map(line).collect()
}

/// The first pair of rows that give one event two meanings in one state. A table of a machine must have none.
pub fn contradiction<S: Copy + PartialEq + Debug, E: Copy + PartialEq + Debug>(table: &[Row<S, E>]) -> Option<(S, E)> {
    table.iter().enumerate().find_map(|(index, row)| {
        let rest = &table[index + 1..];
        let clash = |state: &&S| rest.iter().any(|other| other.event == row.event && other.from.contains(state));
        row.from.iter().find(clash).map(|state| (*state, row.event))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: &[Row<&str, char>] =
        &[Row { event: 'o', from: &["shut"], to: "open" }, Row { event: 's', from: &["open", "shut"], to: "shut" }];

    #[test]
    fn a_table_leads_on_or_refuses() {
        assert_eq!(next(DOOR, "shut", 'o'), Some("open"));
        assert_eq!(next(DOOR, "open", 'o'), None);
        assert_eq!(contradiction(DOOR), None);
        assert_eq!(contradiction(&[DOOR[1], DOOR[1]]), Some(("open", 's')));
    }
}
