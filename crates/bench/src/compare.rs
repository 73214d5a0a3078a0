//! Rows from the medians of two contestants.

use crate::report::{Better, Row};
use crate::turns::Outcome;
use anyhow::{Result, anyhow};

/// A length as people write it.
pub fn bytes(len: u64) -> String {
    match len {
        0..0x400 => format!("{len} B"),
        0x400..0x10_0000 => format!("{} KiB", len >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", len >> 20),
        _ => format!("{} GiB", len >> 30),
    }
}

/// Our own median; a bench that has none has failed.
pub fn own(case: &str, ours: &Outcome, key: &str) -> Result<f64> {
    ours.median(key).map_err(|reason| anyhow!("{case}: {reason}"))
}

/// A time in ns as a row in the unit that reads best, and the unit's share of a ns.
pub fn time_row(case: String, ns: f64) -> (Row, f64) {
    let (unit, scale) = match ns {
        ..1e3 => ("ns", 1.0),
        1e3..1e7 => ("us", 1e-3),
        _ => ("ms", 1e-6),
    };
    (Row::alone(case, ns * scale, unit, Better::Lower), scale)
}

/// Our time beside a peer's, which may be missing.
pub fn compare(case: String, ours: &Outcome, key: &str, peer: &Outcome, peer_key: &str, goal: Option<f64>) -> Result<Row> {
    let (row, scale) = time_row(case.clone(), own(&case, ours, key)?);
    Ok(beside(row, &peer.name, peer.median(peer_key).map(|ns| ns * scale), goal))
}

/// Our rate beside a peer's, both from times of `amount` of something in ns. So `amount` bytes give GB/s, and 1000 updates millions a
/// second.
pub fn compare_rates(
    case: String,
    (amount, unit): (f64, &'static str),
    (ours, key): (&Outcome, &str),
    (peer, peer_key): (&Outcome, &str),
    goal: Option<f64>,
) -> Result<Row> {
    let row = Row::alone(case.clone(), amount / own(&case, ours, key)?, unit, Better::Higher);
    Ok(beside(row, &peer.name, peer.median(peer_key).map(|ns| amount / ns), goal))
}

/// A row beside a peer's figure in the same unit, or beside the reason why there is none.
pub fn beside(row: Row, peer: &str, figure: Result<f64, &str>, goal: Option<f64>) -> Row {
    match figure {
        Ok(figure) => row.beside(peer, figure, goal),
        Err(reason) => row.missing(peer, reason, goal),
    }
}

/// Our own other way, as the peer of a row.
pub fn baseline(ours: &Outcome, what: &str) -> Outcome {
    Outcome { name: format!("{what} (own baseline)"), ..ours.clone() }
}

/// A part of a case's time, or of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its figure, behind what the case's figures begin with.
    pub key: &'static str,
    /// Its name in rows.
    pub name: &'static str,
    /// Its unit in rows.
    pub unit: &'static str,
    /// Factor from the figure to that unit.
    pub scale: f64,
}

/// A case's rows. If one is below its goal, also the parts that say what the limit is, under the last row's name.
pub fn with_parts(mut rows: Vec<Row>, ours: &Outcome, begin: &str, parts: &[Part]) -> Result<Vec<Row>> {
    if rows.iter().any(Row::is_below) {
        let case = rows.last().map(|row| row.case.clone()).unwrap_or_default();
        for Part { key, name, unit, scale } in parts {
            let part = format!("{case}: {name}");
            let value = own(&part, ours, &format!("{begin}{key}"))? * scale;
            rows.push(Row::alone(part, value, unit, Better::Lower));
        }
    }
    Ok(rows)
}

/// The way of a peer whose figure is least, named.
pub fn best_of(peer: &Outcome, ways: &[(String, &str)]) -> (Outcome, String) {
    let figure = |key: &str| peer.median(key).unwrap_or(f64::INFINITY);
    let least = ways.iter().min_by(|(a, _), (b, _)| figure(a).total_cmp(&figure(b))).expect("there is some way");
    let name = if peer.medians.is_ok() { format!("{} {}", peer.name, least.1) } else { peer.name.clone() };
    (Outcome { name, ..peer.clone() }, least.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Figures;

    fn outcome(name: &str, figures: &[(&str, f64)]) -> Outcome {
        let figures: Figures = figures.iter().map(|(key, ns)| ((*key).to_owned(), *ns)).collect();
        Outcome { name: name.into(), medians: Ok(figures) }
    }

    #[test]
    fn lengths_and_times_read_well() {
        assert_eq!([8, 4096, 1 << 20, 1 << 30].map(bytes), ["8 B", "4 KiB", "1 MiB", "1 GiB"]);
        assert_eq!(time_row("x".into(), 31.5).0.unit, "ns");
        assert_eq!(time_row("x".into(), 8100.0).0.value, 8.1);
        assert_eq!(time_row("x".into(), 2.5e8).0.value, 250.0);
    }

    #[test]
    fn both_sides_of_a_row_have_one_unit() {
        let row = compare("x".into(), &outcome("a", &[("k", 900.0)]), "k", &outcome("b", &[("k", 1800.0)]), "k", Some(1.0));
        let row = row.unwrap();
        let beside = row.beside.unwrap();
        assert_eq!((row.unit, beside.peer_value, beside.ratio, beside.met), ("ns", Some(1800.0), Some(2.0), Some(true)));
    }

    #[test]
    fn a_rate_is_better_when_its_time_is_less() {
        let (ours, peer) = (outcome("a", &[("k", 50.0)]), outcome("b", &[("k", 100.0)]));
        let row = compare_rates("x".into(), (1e3, "M/s"), (&ours, "k"), (&peer, "k"), Some(1.0)).unwrap();
        assert_eq!((row.value, row.beside.unwrap().ratio), (20.0, Some(2.0)));
    }

    #[test]
    fn parts_are_told_where_a_goal_is_missed() {
        let ours = outcome("a", &[("k", 200.0), ("k_moved", 4096.0)]);
        let parts = [Part { key: "moved", name: "moved", unit: "KB", scale: 1e-3 }];
        let rows = |goal| {
            let row = compare("x".into(), &ours, "k", &outcome("b", &[("k", 100.0)]), "k", Some(goal));
            with_parts(vec![row.unwrap()], &ours, "k_", &parts).unwrap()
        };
        assert_eq!(rows(0.5).len(), 1);
        assert_eq!(rows(1.0)[1..], [Row::alone("x: moved", 4.096, "KB", Better::Lower)]);
        let error = with_parts(rows(1.0), &ours, "other_", &parts).unwrap_err();
        assert!(error.to_string().contains("it does not measure this"), "{error}");
    }

    #[test]
    fn the_best_way_is_named_and_a_missing_peer_stays_missing() {
        let peer = outcome("MPI", &[("a", 5.0), ("b", 3.0)]);
        let ways = [("a".to_owned(), "slowly"), ("b".to_owned(), "well")];
        let (best, key) = best_of(&peer, &ways);
        assert_eq!((best.name.as_str(), key.as_str()), ("MPI well", "b"));
        let absent = Outcome { name: "MPI".into(), medians: Err("none".into()) };
        assert_eq!(best_of(&absent, &ways).0.name, "MPI");
    }
}
