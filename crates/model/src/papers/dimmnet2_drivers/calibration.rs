//! The time of one 512 B disk operation, solved from a program's table and used for another program.
//!
//! The paper does not print T_tr. What equation (6) leaves of T_all is T_tr; divided by the operations it is the mean time of one.
//! A model that takes it from the table it then predicts repeats that table, so the matrix product takes it from Himeno's table,
//! Himeno from the matrix product's, and the Wisconsin query from both.
use crate::facts::facts;
use crate::parameters::Parameters;

use super::equations::{Parts, os_of_pages};

/// A program with a table of its own in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// SOURCE: [D2 Table 6]
    Matrix,
    /// SOURCE: [D2 Table 7]
    Wisconsin,
    /// SOURCE: [D2 Table 8]
    Himeno,
}

/// Times of one read and one write operation, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operations {
    /// One 512 B read.
    pub read: f64,
    /// One 512 B write.
    pub write: f64,
}

/// One column of a table, as printed.
struct Printed {
    reads: f64,
    writes: f64,
    /// T_tr: what equation (6) leaves of T_all.
    transfer: f64,
}

fn column(program: Program, node_count: u64, parameters: &Parameters) -> Printed {
    let prefix = match program {
        Program::Matrix => "d2.t6",
        Program::Wisconsin => "d2.t7",
        Program::Himeno => "d2.t8",
    };
    let printed = |row: &str| facts().facts.get(&format!("{prefix}.{row}.p{node_count}")).map(|fact| fact.input().numbers()[0]);
    // A row that a table does not have is zero there: the query writes and flushes nothing.
    let row = |name: &str| printed(name).unwrap_or(0.0);
    let per_page = parameters.get_in("os.page", "ms");
    let per_flush = parameters.get_in("os.flush", "ms");
    let known = Parts {
        os: os_of_pages(per_page, row("n_page"), per_flush, row("n_flush")),
        barrier: row("t_barrier"),
        transfer: 0.0,
        calc: row("t_calc"),
    };
    Printed { reads: row("nr0"), writes: row("nw0"), transfer: row("t_all") - known.total() }
}

/// The mean time of one operation in a program's table, in milliseconds: T_tr over all reads and writes.
pub fn mean_of(program: Program, node_count: u64, parameters: &Parameters) -> f64 {
    let printed = column(program, node_count, parameters);
    printed.transfer / (printed.reads + printed.writes)
}

/// Read and write apart, from the two mixes of the matrix product and Himeno, in milliseconds.
///
/// SOURCE: derived from [D2 Tables 6 and 8]; one node gives 1.55 and 1.97 us.
pub fn solved(node_count: u64, parameters: &Parameters) -> Operations {
    let (a, b) = (column(Program::Matrix, node_count, parameters), column(Program::Himeno, node_count, parameters));
    let determinant = a.reads * b.writes - a.writes * b.reads;
    Operations {
        read: (a.transfer * b.writes - a.writes * b.transfer) / determinant,
        write: (a.reads * b.transfer - a.transfer * b.reads) / determinant,
    }
}

/// The operations' times a prediction of `program` uses.
///
/// More than two nodes use the two-node times, as the paper's own prediction does. A user's network replaces them: a
/// remote operation is then a local one and a message, and (P-1)/P of all are remote.
pub fn operations(program: Program, node_count: u64, parameters: &Parameters) -> Operations {
    let columns = if node_count == 1 || parameters.network().is_some() { 1 } else { 2 };
    let mean = |of: Program| {
        let time = mean_of(of, columns, parameters);
        Operations { read: time, write: time }
    };
    let mut times = match (parameters.choice_name("transfer.from"), program) {
        ("other", Program::Matrix) | ("himeno", _) => mean(Program::Himeno),
        ("other", Program::Himeno) | ("matrix", _) => mean(Program::Matrix),
        ("wisconsin", _) => mean(Program::Wisconsin),
        _ => solved(columns, parameters),
    };
    if let Some(network) = parameters.network() {
        let remote_share = 1.0 - 1.0 / node_count as f64;
        let message = network.message(parameters.bytes("io.unit")).as_ms();
        times.read += remote_share * message;
        times.write += remote_share * message;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::dimmnet2_drivers::parameters;

    fn near(got_ms: f64, key: &str) {
        let want = facts().number(key);
        assert!((got_ms * 1e3 - want).abs() < 0.0006, "{key}: {want} us, got {} us", got_ms * 1e3);
    }

    #[test]
    fn residuals_are_those_of_the_facts() {
        let parameters = parameters();
        for (program, name) in [(Program::Matrix, "mm"), (Program::Wisconsin, "wis"), (Program::Himeno, "him")] {
            for node_count in [1, 2] {
                near(mean_of(program, node_count, &parameters), &format!("d2.check.t_tr_per_op.{name}{node_count}"));
            }
        }
        near(mean_of(Program::Matrix, 4, &parameters), "d2.check.t_tr_per_op.mm4");
    }

    #[test]
    fn the_solved_times_are_those_of_the_facts() {
        let times = solved(1, &parameters());
        near(times.read, "d2.calib.read_512B");
        near(times.write, "d2.calib.write_512B");
    }

    #[test]
    fn no_program_uses_its_own_table_unless_asked() {
        let rests_on_own = |program, own: &str, from: &str| {
            let mut parameters = parameters();
            parameters.set("transfer.from", from).unwrap();
            let (_, reads) = crate::reads::during(|| operations(program, 2, &parameters));
            reads.facts.iter().any(|key| key.starts_with(own))
        };
        for (program, own, name) in [
            (Program::Matrix, "d2.t6", "matrix"),
            (Program::Wisconsin, "d2.t7", "wisconsin"),
            (Program::Himeno, "d2.t8", "himeno"),
        ] {
            assert!(!rests_on_own(program, own, "other"), "{program:?}");
            assert!(rests_on_own(program, own, name), "{program:?}");
        }
    }
}
